"""Helpers for the LongMemEval study. A module imports only from floors below its own.

    0  config (profiles, places, seed) · schema (what travels) · files
    1  formats (the official JSON) · data (load, describe) · store, request, chat, llm
       (asking language models) · weights, download (files from the hub) · embed
       (vectors) · stats
    2  index (keys and values) · retrieve · metrics · read (prompts) · wording,
       offline_judge, judge · serve (a local model server) · exchange (the authors'
       files)
    3  models (a profile's models while a run lasts) · construct/ (items, proposals,
       audit, histories)
    4  study (run a grid) · recordings (what a run leaves for others)
    5  verdicts, provenance · plots, plots_data, tables · run_notebook, publish ·
       __main__

The way of the data: files -> Instance -> Records -> Ranking -> Answer -> Verdict -> one
table of results -> figures and tables.
"""
