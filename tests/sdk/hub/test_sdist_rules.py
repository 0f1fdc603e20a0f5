"""Which source distributions are refused, and with which words."""

import base64
import gzip
import io
import random
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from strop.errors import PackageError
from strop.hub.rules.limits import Limits
from strop.hub.sdist import check_sdist
from tests.factories import a_sdist

Change = Callable[[tarfile.TarFile], None]


def forged(
    folder: Path,
    *,
    files: Mapping[str, str] | None = None,
    change: Change | None = None,
    behind: bytes = b"",
    form: int = tarfile.PAX_FORMAT,
    name: str = "maze-0.1.0.tar.gz",
) -> Path:
    """A source distribution with something wrong about it."""
    contents = {"maze-0.1.0/PKG-INFO": "Metadata-Version: 2.1\nName: maze\nVersion: 0.1.0\n"}
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=form) as archive:
        for inner, text in (contents if files is None else files).items():
            member = tarfile.TarInfo(inner)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
        if change is not None:
            change(archive)
    path = folder / name
    path.write_bytes(gzip.compress(raw.getvalue() + behind, mtime=0))
    return path


def member(path: str, kind: bytes, target: str = "") -> Change:
    def add(archive: tarfile.TarFile) -> None:
        entry = tarfile.TarInfo(path)
        entry.type, entry.linkname = kind, target
        archive.addfile(entry)

    return add


def file(path: str, pax: Mapping[str, str] | None = None) -> Change:
    def add(archive: tarfile.TarFile) -> None:
        entry = tarfile.TarInfo(path)
        entry.pax_headers = dict(pax or {})
        archive.addfile(entry, io.BytesIO())

    return add


def test_a_source_distribution_tells_its_name_version_and_python(tmp_path: Path) -> None:
    facts = check_sdist(a_sdist(tmp_path, name="my-maze", requires_python=">=3.11"))

    assert (facts.name, facts.version) == ("my-maze", "0.1.0")
    assert facts.filename == "my_maze-0.1.0.tar.gz"
    assert facts.requires_python == ">=3.11"


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_every_form_that_backends_write_is_read(tmp_path: Path, form: int) -> None:
    def add(archive: tarfile.TarFile) -> None:
        member("maze-0.1.0/src", tarfile.DIRTYPE)(archive)
        long = "maze-0.1.0/src/" + "long-name/" * 8 + "module.py"
        file(long)(archive)
        member("maze-0.1.0/src/link", tarfile.SYMTYPE, "../PKG-INFO")(archive)

    assert check_sdist(forged(tmp_path, change=add, form=form)).name == "maze"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(file("maze-0.1.0/../../evil"), "leaves the tree", id="parent"),
        pytest.param(file("/etc/passwd"), "must hold one folder", id="absolute"),
        pytest.param(file("other/file.py"), "must hold one folder", id="second folder"),
        pytest.param(file("maze-0.1.0/PKG-INFO"), "stands twice", id="twice"),
        pytest.param(file("maze-0.1.0/pkg-info"), "differ only in case", id="case"),
        pytest.param(file("maze-0.1.0/a\nb"), "control characters", id="control"),
        pytest.param(
            member("maze-0.1.0/x", tarfile.LNKTYPE, "maze-0.1.0/PKG-INFO"), "hard link", id="hard"
        ),
        pytest.param(
            member("maze-0.1.0/x", tarfile.SYMTYPE, "../../etc/passwd"), "leads out", id="link"
        ),
        pytest.param(
            member("maze-0.1.0/x", tarfile.SYMTYPE, "/etc/passwd"), "leads out", id="absolute link"
        ),
        pytest.param(member("maze-0.1.0/x", tarfile.FIFOTYPE), "pipe", id="pipe"),
        pytest.param(file("maze-0.1.0/x", {"size": "5"}), "read differently", id="pax size"),
        pytest.param(
            file("maze-0.1.0/x", {"GNU.sparse.major": "1"}), "read differently", id="sparse"
        ),
        pytest.param(file("maze-0.1.0/x", {"comment": "z" * 300_000}), "a header of", id="header"),
    ],
)
def test_what_could_be_unpacked_differently_is_refused(
    tmp_path: Path, change: Change, words: str
) -> None:
    with pytest.raises(PackageError, match=words):
        check_sdist(forged(tmp_path, change=change))


def test_bytes_behind_the_last_member_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="behind its last member"):
        check_sdist(forged(tmp_path, behind=b"x" * 512))


def test_an_archive_without_its_end_is_refused(tmp_path: Path) -> None:
    path = forged(tmp_path)
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:1024]))

    with pytest.raises(PackageError, match="cut off"):
        check_sdist(path)


def test_a_source_distribution_without_pkg_info_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match=r"has no maze-0\.1\.0/PKG-INFO"):
        check_sdist(forged(tmp_path, files={"maze-0.1.0/setup.py": ""}))


@pytest.mark.parametrize(
    "name", ["Maze-0.1.0.tar.gz", "maze-0.1.tar.gz", "maze-0.1.0.zip", "maze.tar.gz"]
)
def test_the_file_name_is_the_one_of_pep_625(tmp_path: Path, name: str) -> None:
    stem = name.removesuffix(".tar.gz")
    files = {f"{stem}/PKG-INFO": "Metadata-Version: 2.1\nName: maze\nVersion: 0.1.0\n"}

    with pytest.raises(PackageError):
        check_sdist(forged(tmp_path, files=files, name=name))


def test_a_file_that_is_a_zip_as_well_is_refused(tmp_path: Path) -> None:
    path = forged(tmp_path)
    empty_zip = b"PK\x05\x06" + bytes(18)
    path.write_bytes(path.read_bytes() + empty_zip)

    with pytest.raises(PackageError, match="zip archive as well"):
        check_sdist(path)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = forged(tmp_path, files={"maze-0.1.0/zeros": "0" * 5_000_000})

    with pytest.raises(PackageError, match="decompression bomb"):
        check_sdist(path, limits=Limits(ratio_from_bytes=1_000_000))


def test_how_large_it_may_grow_depends_on_how_small_it_packs(tmp_path: Path) -> None:
    info = "Metadata-Version: 2.1\nName: maze\nVersion: 0.1.0\n"
    noise = base64.b85encode(random.Random(1).randbytes(80_000)).decode()
    limits = Limits(unpacked_bytes=50_000)

    for content, is_taken in ((noise, True), ("0" * len(noise), False)):
        files = {"maze-0.1.0/PKG-INFO": info, "maze-0.1.0/data": content}
        path = forged(tmp_path, files=files)
        if is_taken:
            assert check_sdist(path, limits=limits).name == "maze"
        else:
            with pytest.raises(PackageError, match="unpacks to more than"):
                check_sdist(path, limits=limits)


def test_a_licence_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    text = "Metadata-Version: 2.4\nName: maze\nVersion: 0.1.0\nLicense-File: LICENSE\n"

    with pytest.raises(PackageError, match="licence files 'LICENSE'"):
        check_sdist(forged(tmp_path, files={"maze-0.1.0/PKG-INFO": text}))
