# `make figures` and `make test` are all a newcomer needs: `make help` lists the rest.
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON  ?= python3
PROFILE ?= mini
export PROFILE LIVE LME_DATA

NAME := $(patsubst %.toml,%,$(notdir $(PROFILE)))
B    := build/$(NAME)
PY   := .venv/bin/python

SRC  := $(sort $(wildcard notebooks/[0-9][0-9]_*.ipynb))
RUN  := $(SRC:notebooks/%=$(B)/nb/%)
LIB  := $(filter-out lme_utils/publish.py,$(wildcard lme_utils/*.py lme_utils/*/*.py)) \
        $(wildcard lme_utils/*.mplstyle lme_utils/prompts/*.txt) \
        $(wildcard lme_utils/profiles/$(NAME).toml) $(filter %.toml,$(PROFILE))
IN   := $(wildcard data/*.csv data/*.toml) \
        $(shell find data/$(NAME) data/paper data/sources data/calibration \
          data/recordings/$(NAME)* data/recordings/judges data/tokenizers \
          -type f 2>/dev/null)

# Where models answer live, one notebook at a time has them.
ifneq ($(LIVE)$(filter-out mini,$(NAME)),)
.NOTPARALLEL:
endif

.PHONY: help setup figures notebooks check test test-live lab record check-recordings \
        parity data data-mini model publish lint clean setup-gpu FORCE

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-17s %s\n", $$1, $$2}' Makefile
	@echo "  PROFILE=mini|real-cpu|paper  LIVE=1 (ask the models again)  LME_DATA=dir (real data)"

setup: .venv/.installed .venv/.embedder ## make .venv and fetch the embedder

figures: notebooks ## rebuild every figure and table that is out of date
	@echo "$(B): $(words $(RUN)) notebooks, figures and tables are up to date"

notebooks: $(RUN) ## run the notebooks that are out of date

check: figures ## compare the results with what was expected; fails if one is off
	@$(PY) -m lme_utils.provenance check $(B)

test: setup ## run the tests (no network, no language model)
	@$(PY) -m pytest

test-live: setup ## run the tests that ask the local language model
	@$(PY) -m pytest -m live

lab: setup ## open the notebooks in JupyterLab
	@$(PY) -m jupyter lab notebooks

record: setup ## ask the models for every answer, in the background, and keep it
	@mkdir -p $(B)
	@nohup sh -c '$(MAKE) --no-print-directory figures LIVE=1 && \
	  $(PY) -m lme_utils record --profile $(PROFILE) && echo recorded' \
	  > $(B)/record.log 2>&1 < /dev/null &
	@echo "asking; how far it is: tail $(B)/record.log $(B)/log/*.txt"
	@echo "stopped, it goes on from there when it is started again"

check-recordings: setup ## ask again for a sample of the recorded answers and compare
	@$(PY) -m lme_utils check-recordings --profile $(PROFILE)

parity: setup ## score BM25 on DATA=FILE as the authors' scripts do
	@test -n "$(DATA)" || { echo "say which file: make parity DATA=FILE"; exit 2; }
	@for level in session turn; do $(PY) -m lme_utils retrieve --data "$(DATA)" \
	  --retriever bm25 --granularity $$level --compat official || exit 1; done

data: setup ## download the LongMemEval files that data/sources.toml names
	@$(PY) -m lme_utils download

data-mini: setup ## rebuild data/mini from data/sources, the same bytes each time
	@$(PY) -m lme_utils.construct.mini

model: setup ## fetch the local reading models (1.6 GB)
	@$(PY) -m lme_utils.weights Qwen2.5-Coder-1.5B-Instruct Qwen2.5-Coder-0.5B-Instruct

publish: figures ## copy outputs and figures of the mini profile into the repository
	@test "$(PROFILE)" = mini || { echo "only the mini profile is published"; exit 2; }
	@$(PY) -m lme_utils.publish

lint: setup ## check the style of the code
	@$(PY) -m ruff check . && $(PY) -m ruff format --check .

clean: ## remove build/; data, recordings and the cache stay
	rm -rf build

setup-gpu: .venv-gpu/.installed ## make .venv-gpu with vllm (Linux, NVIDIA GPU)

# $(call install,FOLDER,PIP ARGUMENTS): a virtual environment with packages in it
define install
@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
  { echo "$(PYTHON) is `$(PYTHON) --version 2>&1`; this needs Python 3.11, 3.12 or 3.13:" \
    "make PYTHON=python3.12"; exit 1; }
@echo "install into $(1) (minutes, the first time)"
@test -x $(1)/bin/pip || $(PYTHON) -m venv $(1)
@$(1)/bin/python -m pip install --quiet --disable-pip-version-check $(2)
endef

# The .pth file lets a notebook import lme_utils wherever its kernel starts.
.venv/.installed: requirements.txt constraints.txt
	$(call install,.venv,-r requirements.txt -c constraints.txt)
	@echo "$(CURDIR)" > "$$($(PY) -c \
	  'import sysconfig; print(sysconfig.get_path("purelib"))')/lme_utils.pth"
	@touch $@

.venv-gpu/.installed: requirements-gpu.txt
	$(call install,.venv-gpu,-r requirements-gpu.txt)
	@touch $@

# Holds the place of the embedder in the user's cache; fetched again if it is gone.
.venv/.embedder: .venv/.installed data/sources.toml \
                 $(if $(wildcard $(shell cat .venv/.embedder 2>/dev/null)),,FORCE)
	@$(PY) -m lme_utils.weights all-MiniLM-L6-v2
	@$(PY) -c 'from lme_utils.weights import find_weights as f; \
	  print(f("all-MiniLM-L6-v2"))' > $@

# What a run depends on besides files; rewritten only when it changes.
$(B)/.settings: FORCE
	@mkdir -p $(@D)
	@echo 'LIVE=$(LIVE) LME_DATA=$(LME_DATA)' | cmp -s - $@ || \
	  echo 'LIVE=$(LIVE) LME_DATA=$(LME_DATA)' > $@

$(B)/nb/%.ipynb: notebooks/%.ipynb $(LIB) $(IN) $(B)/.settings .venv/.installed \
                 | .venv/.embedder
	@echo "run $* ($(PROFILE))"
	@mkdir -p $(B)/log
	@$(PY) -m lme_utils.run_notebook $< $@ PROFILE=$(PROFILE) OUT_DIR=$(B) \
	  > $(B)/log/$*.txt 2>&1 || { tail -n 30 $(B)/log/$*.txt; exit 1; }
	@tail -n 1 $(B)/log/$*.txt
