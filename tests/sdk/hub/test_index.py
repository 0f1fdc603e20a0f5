"""Source distributions come from the index that pip is set to, and are what it says they are."""

import hashlib
import io
import tarfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from strop.errors import PackageError, SettingsError
from strop.hub.index import PipIndexes, fetch_sdist, pip_indexes
from strop.hub.sdist import read_sdist

FILES = {
    "PKG-INFO": b"Metadata-Version: 2.1\nName: little.lib\nVersion: 1.0\n",
    "little_lib.py": b"ONE = 1\n",
    "tests/test_one.py": b"import little_lib\n",
}


def sdist() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, content in FILES.items():
            member = tarfile.TarInfo(f"little_lib-1.0/{path}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("little_lib-1.0/link.py")
        link.type, link.linkname = tarfile.SYMTYPE, "little_lib.py"
        archive.addfile(link)
    return buffer.getvalue()


class Index:
    """A folder that a server shows as a simple index."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url

    def publish(self, content: bytes, digest: str) -> None:
        page = self.folder / "simple" / "little-lib" / "index.html"
        page.parent.mkdir(parents=True)
        (self.folder / "little_lib-1.0.tar.gz").write_bytes(content)
        wheel = '<a href="../../little_lib-1.0-py3-none-any.whl#sha256=00">wheel</a>'
        other = '<a href="../../little_lib-1.1.tar.gz#sha256=00">newer</a>'
        page.write_text(
            f"<!doctype html>{wheel}{other}"
            f'<a href="../../little_lib-1.0.tar.gz#sha256={digest}">source</a>'
        )

    @property
    def indexes(self) -> PipIndexes:
        return PipIndexes("", [f"{self.url}/nothing", f"{self.url}/simple/"])


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    folder = tmp_path / "index"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder)) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield Index(folder, f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
        thread.join()


def test_a_version_is_fetched_once_and_read_without_its_links(index: Index, tmp_path: Path) -> None:
    content = sdist()
    index.publish(content, hashlib.sha256(content).hexdigest())
    kept = fetch_sdist("Little.Lib==1.0.0", tmp_path / "kept", index.indexes)
    assert kept.read_bytes() == content
    assert read_sdist(kept) == FILES
    nowhere = PipIndexes("", ["http://127.0.0.1:1/"])
    assert fetch_sdist("little-lib==1.0", tmp_path / "kept", nowhere) == kept


def test_a_file_that_is_not_what_the_index_says_is_refused(index: Index, tmp_path: Path) -> None:
    index.publish(sdist(), "0" * 64)
    with pytest.raises(PackageError, match="the index says 0000"):
        fetch_sdist("little-lib==1.0", tmp_path / "kept", index.indexes)
    assert not (tmp_path / "kept").exists()


def test_a_version_that_no_index_has_is_named(index: Index, tmp_path: Path) -> None:
    with pytest.raises(PackageError, match=r"source distribution .* of little-lib 2\.0"):
        fetch_sdist("little-lib==2.0", tmp_path, index.indexes)


def test_an_index_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match=r"127\.0\.0\.1 does not answer"):
        fetch_sdist("little-lib==1.0", tmp_path, PipIndexes("", ["http://127.0.0.1:1/"]))


@pytest.mark.parametrize(
    "text", ["little", "little>=1", "little==1.*", "little==1,!=2", "little @ file:///x", "--x"]
)
def test_what_names_no_single_version_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="names no single version"):
        fetch_sdist(text, tmp_path, PipIndexes("", []))


def test_the_indexes_are_those_of_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "file:///x http://127.0.0.1:8/simple")
    monkeypatch.setenv("PIP_CERT", "/authorities.pem")
    found = pip_indexes()
    assert found.certificates == "/authorities.pem"
    assert found.urls == ["http://127.0.0.1:9/simple", "http://127.0.0.1:8/simple"]
