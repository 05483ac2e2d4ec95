"""Fetching weights: from a hub and from wheels, both played on this machine."""

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from huggingface_hub import constants

from lme_utils import config, weights

PARTS = (b"first part, ", b"second part")
WHOLE = b"".join(PARTS)
SHA256 = hashlib.sha256(WHOLE).hexdigest()
REVISION = "a" * 40
CLOSED = "http://127.0.0.1:9"  # nothing listens there


def describe(sha256=SHA256, others=""):
    return f"""
[models.toy]
hub = "someone/toy"
revision = "{REVISION}"
file = "toy.gguf"
bytes = {len(WHOLE)}
sha256 = "{sha256}"
licence = "MIT"
{others}
[models.toy.wheels]
package = "toy-weights-part{{n}}"
version = "1.0"
parts = 2
member = "toy_weights_part{{n}}/part{{n:02}}.bin"
"""


def make_wheel(folder, n, content):
    name = f"toy_weights_part{n}"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/part{n:02}.bin", content)
        info = f"{name}-1.0.dist-info"
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        )
        wheel.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A model called toy, an empty cache, no hub, and a folder of wheels for pip."""
    sources, links = tmp_path / "sources.toml", tmp_path / "links"
    sources.write_text(describe())
    links.mkdir()
    for n, part in enumerate(PARTS, start=1):
        make_wheel(links, n, part)
    monkeypatch.setattr(config, "SOURCES", sources)
    monkeypatch.setattr(constants, "ENDPOINT", CLOSED)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("LME_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    return tmp_path


@pytest.fixture
def hub(toy, monkeypatch):
    """A hub on loopback that has toy.gguf; counts what it was asked."""

    class Hub(BaseHTTPRequestHandler):
        content, asked = WHOLE, []

        def do_HEAD(self):
            self.do_GET()

        def do_GET(self):
            Hub.asked.append((self.command, self.path))
            if self.path.startswith("/api/"):
                body = json.dumps({"id": "someone/toy", "sha": REVISION}).encode()
            elif self.path == f"/someone/toy/resolve/{REVISION}/toy.gguf":
                body = Hub.content
            else:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("X-Repo-Commit", REVISION)
            self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", address)
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield Hub
    server.shutdown()
    server.server_close()


def models(toy):
    return toy / "cache" / "models"


def test_the_real_table_is_complete():
    for name in ("Qwen2.5-Coder-1.5B-Instruct", "Qwen2.5-Coder-0.5B-Instruct"):
        model = weights.source(name)
        assert model["file"].endswith(".gguf")
        assert len(model["sha256"]) == 64 and len(model["revision"]) == 40
        assert model["wheels"]["member"].format(n=3).endswith("part03.bin")
    mpnet = weights.source("all-mpnet-base-v2")
    assert (
        mpnet["wheels"]["member"]
        .format(n=5)
        .endswith("part_005/input/all-mpnet-base-v2.zip.005")
    )
    assert (
        mpnet["wheels"]["unzip"].format(file="modules.json").endswith("/modules.json")
    )
    with pytest.raises(ValueError, match=r"no model 'gpt' .* Qwen2\.5-Coder-1\.5B"):
        weights.source("gpt")


def test_find_says_what_to_run(toy):
    with pytest.raises(FileNotFoundError, match=r"make model.*lme_utils\.weights toy"):
        weights.find_weights("toy")


def test_wheels_where_the_hub_cannot_be_reached(toy):
    path = weights.fetch_weights("toy")
    assert path.read_bytes() == WHOLE
    assert weights.find_weights("toy") == path
    left = {p.name for p in path.parent.iterdir()}
    assert left == {"toy.gguf", "toy.gguf.sha256"}
    assert not (models(toy) / "toy.part").exists()


def test_an_interrupted_fetch_starts_again(toy):
    aside = models(toy) / "toy.part"
    (aside / "wheels").mkdir(parents=True)
    (aside / "toy.gguf").write_bytes(b"half of a file that was nev")
    (aside / "wheels" / "toy_weights_part1-1.0-py3-none-any.whl").write_bytes(b"PK")
    assert weights.fetch_weights("toy").read_bytes() == WHOLE


def test_missing_part_names_both_reasons(toy):
    next((toy / "links").glob("*part2*")).unlink()
    with pytest.raises(OSError) as caught:
        weights.fetch_weights("toy")
    text = str(caught.value)
    assert "hub: ConnectError" in text
    assert "toy-weights-part2==1.0" in text.split("wheels:")[1]
    assert not (models(toy) / "toy").exists()


def test_wrong_hash_is_deleted_and_told(toy):
    config.SOURCES.write_text(describe(sha256="0" * 64))
    with pytest.raises(OSError) as caught:
        weights.fetch_weights("toy")
    assert SHA256 in str(caught.value)
    assert f"wanted {'0' * 64}" in str(caught.value)
    assert not list(toy.rglob("toy.gguf"))


def test_the_hub_comes_first(toy, hub):
    path = weights.fetch_weights("toy")
    assert path.read_bytes() == WHOLE
    assert ("GET", f"/someone/toy/resolve/{REVISION}/toy.gguf") in hub.asked
    assert {p.name for p in path.parent.iterdir()} == {"toy.gguf", "toy.gguf.sha256"}
    asked = len(hub.asked)
    assert weights.fetch_weights("toy") == path  # found, nothing asked
    assert len(hub.asked) == asked


def test_wrong_bytes_from_the_hub_fall_back_to_the_wheels(toy, hub, monkeypatch):
    monkeypatch.setattr(hub, "content", b"something else")
    assert weights.fetch_weights("toy").read_bytes() == WHOLE


def test_hashed_once_and_again_when_the_file_changes(toy, monkeypatch):
    path = weights.fetch_weights("toy")
    hashed = []
    check = weights.check_file
    monkeypatch.setattr(
        weights, "check_file", lambda *args: (hashed.append(args[0]), check(*args))
    )
    weights.find_weights("toy")
    assert hashed == []
    os.utime(path, (1, 1))
    weights.find_weights("toy")
    weights.find_weights("toy")
    assert hashed == [path]
    path.write_bytes(WHOLE.upper())
    with pytest.raises(ValueError, match="got sha256"):
        weights.find_weights("toy")
    assert weights.fetch_weights("toy").read_bytes() == WHOLE


def test_a_folder_of_files_out_of_one_wheel(toy):
    note = hashlib.sha256(b"{}").hexdigest()
    text = describe(others=f'[models.toy.others]\n"deep/note.json" = "{note}"')
    text = text.replace("parts = 2", "parts = 1")
    text = text.replace("part{n:02}.bin", "{file}")
    config.SOURCES.write_text(text)
    wheel = next((toy / "links").glob("*part1*"))
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("toy_weights_part1/toy.gguf", WHOLE)
        archive.writestr("toy_weights_part1/deep/note.json", b"{}")
    folder = weights.fetch_weights("toy")
    assert folder.is_dir()
    assert (folder / "toy.gguf").read_bytes() == WHOLE
    assert (folder / "deep" / "note.json").read_bytes() == b"{}"
    (folder / "deep" / "note.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"deep/note\.json"):
        weights.find_weights("toy")


def test_a_zip_archive_in_parts(toy):
    note = hashlib.sha256(b"{}").hexdigest()
    text = describe(others=f'[models.toy.others]\n"deep/note.json" = "{note}"')
    config.SOURCES.write_text(text + 'unzip = "toy/{file}"\n')
    whole = toy / "whole.zip"
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("toy/toy.gguf", WHOLE)
        archive.writestr("toy/deep/note.json", b"{}")
        archive.writestr("toy/more.txt", b"nobody asked for this")
    content = whole.read_bytes()
    make_wheel(toy / "links", 1, content[:99])
    make_wheel(toy / "links", 2, content[99:])
    aside = models(toy) / "toy.part"
    aside.mkdir(parents=True)
    (aside / "toy.gguf").write_bytes(b"half of a file that was nev")
    folder = weights.fetch_weights("toy")
    assert (folder / "toy.gguf").read_bytes() == WHOLE
    assert (folder / "deep" / "note.json").read_bytes() == b"{}"
    left = {p.name for p in folder.iterdir()}
    assert left == {"toy.gguf", "toy.gguf.sha256", "deep"}


def test_two_processes_at_once(toy):
    code = (
        "import pathlib, sys; from huggingface_hub import constants;"
        "from lme_utils import config, weights;"
        f"constants.ENDPOINT = {CLOSED!r};"
        "config.SOURCES = pathlib.Path(sys.argv[1]);"
        "print(weights.fetch_weights('toy').read_bytes())"
    )
    command = [sys.executable, "-c", code, str(config.SOURCES)]
    both = [
        subprocess.Popen(command, cwd=config.ROOT, stdout=-1, stderr=-1, text=True)
        for _ in range(2)
    ]
    for process in both:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out.strip()) == (0, repr(WHOLE)), err


def test_command_line(toy, capsys):
    weights.main([])
    assert capsys.readouterr().out.startswith("toy (0 MB) ... ")
    done = subprocess.run(
        [sys.executable, "-m", "lme_utils.weights", "nothing"],
        cwd=config.ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "no model 'nothing'" in done.stderr
