"""The data set's files: fetched once, checked always. The hub is played."""

import hashlib
from pathlib import Path

import huggingface_hub
import pytest

from lme_utils import download

TEXT = b'[{"question_id": "q"}]'


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub that serves `TEXT`; counts its downloads."""
    sources = tmp_path / "sources.toml"
    sources.write_text(
        '[datasets.longmemeval]\nhub = "a/b"\nrevision = "c0ffee"\n'
        '[datasets.longmemeval.files."toy.json"]\n'
        f'bytes = {len(TEXT)}\nsha256 = "{hashlib.sha256(TEXT).hexdigest()}"\n'
    )
    monkeypatch.setattr(download, "SOURCES", sources)
    calls = []

    class Api:
        def repo_info(self, repo, **settings):
            assert settings["repo_type"] == "dataset"

    def fetch(repo, name, *, repo_type, revision, local_dir):
        calls.append((repo, name, repo_type, revision))
        local_dir.mkdir(parents=True, exist_ok=True)
        (local_dir / name).write_bytes(hub.text)
        return str(local_dir / name)

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fetch)

    class hub:
        text = TEXT
        made = calls
        api = Api

    return hub


def test_a_file_is_fetched_once_at_the_fixed_revision(hub, tmp_path):
    for _ in range(2):
        (path,) = download.fetch_dataset(["toy.json"], tmp_path / "data")
        assert path.read_bytes() == TEXT
    assert hub.made == [("a/b", "toy.json", "dataset", "c0ffee")]


def test_a_damaged_file_is_fetched_again(hub, tmp_path):
    (path,) = download.fetch_dataset(["toy.json"], tmp_path)
    path.write_bytes(TEXT[:-1])
    download.fetch_dataset(["toy.json"], tmp_path)
    assert path.read_bytes() == TEXT and len(hub.made) == 2


def test_a_wrong_file_is_refused_and_not_kept(hub, tmp_path):
    hub.text = b"something else"
    with pytest.raises(ValueError, match=r"toy\.json: got sha256 .* wanted"):
        download.fetch_dataset(["toy.json"], tmp_path)
    assert not (tmp_path / "toy.json").exists()


def test_an_unknown_file_and_a_silent_hub_are_named(hub, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"no file 'm\.json' in .*: have toy\.json"):
        download.fetch_dataset(["m.json"], tmp_path)

    def silent(self, repo, **settings):
        raise ConnectionError("no way")

    monkeypatch.setattr(hub.api, "repo_info", silent)
    with pytest.raises(OSError, match=r"ConnectionError: no way.*LME_DATA"):
        download.fetch_dataset(["toy.json"], Path(tmp_path))
