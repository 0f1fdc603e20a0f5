"""What every store of blobs must do."""

import hashlib
import threading
from pathlib import Path

import pytest

from strop_hub.errors import StorageUnavailableError
from strop_hub.storage import FileStorage, Storage


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "blobs"
    root.mkdir()
    return root


@pytest.fixture(params=["filesystem"])
def storage(request: pytest.FixtureRequest, root: Path) -> Storage:
    return {"filesystem": FileStorage}[request.param](root)


def key_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("content", [b"", b"\x00", b"wheel" * 100_000])
def test_bytes_come_back_as_they_were_put(storage: Storage, content: bytes) -> None:
    storage.put_bytes(key_of(content), content)

    assert storage.has(key_of(content))
    assert storage.read(key_of(content)) == content
    assert storage.size_bytes(key_of(content)) == len(content)
    with storage.open(key_of(content)) as file:
        file.seek(len(content) // 2)
        assert file.read() == content[len(content) // 2 :]


def test_a_file_comes_back_although_the_original_is_gone(storage: Storage, tmp_path: Path) -> None:
    path = tmp_path / "upload"
    path.write_bytes(b"wheel")

    storage.put_file(key_of(b"wheel"), path)
    path.unlink()

    assert storage.read(key_of(b"wheel")) == b"wheel"


def test_putting_again_changes_nothing(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "upload").write_bytes(b"wheel")

    for _ in range(2):
        storage.put_bytes(key_of(b"wheel"), b"wheel")
        storage.put_file(key_of(b"wheel"), tmp_path / "upload")

    assert storage.read(key_of(b"wheel")) == b"wheel"


@pytest.mark.parametrize("key", ["0" * 64, "", "..", "../" * 10 + "etc/passwd", "A" * 64])
def test_what_is_not_there_is_a_key_error(storage: Storage, key: str) -> None:
    for read in (storage.read, storage.open, storage.size_bytes):
        with pytest.raises(KeyError):
            read(key)


def test_the_same_bytes_from_many_at_once_are_kept_once(storage: Storage, tmp_path: Path) -> None:
    content = b"wheel" * 200_000
    (tmp_path / "upload").write_bytes(content)
    faults: list[Exception] = []

    def put(number: int) -> None:
        try:
            if number % 2:
                storage.put_bytes(key_of(content), content)
            else:
                storage.put_file(key_of(content), tmp_path / "upload")
            assert storage.read(key_of(content)) == content
        except Exception as error:  # noqa: BLE001 - reported below, in the test's own thread
            faults.append(error)

    threads = [threading.Thread(target=put, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert faults == []


def test_a_store_that_works_says_so(storage: Storage) -> None:
    storage.check()


def test_a_folder_holds_blobs_and_nothing_else(root: Path) -> None:
    storage = FileStorage(root)
    storage.put_bytes(key_of(b"a"), b"a")
    storage.check()

    files = [path for path in root.rglob("*") if path.is_file()]

    assert files == [storage.path(key_of(b"a"))]


def test_a_folder_that_went_away_is_named(root: Path) -> None:
    storage = FileStorage(root)
    root.rmdir()
    root.write_text("in the way")

    with pytest.raises(StorageUnavailableError):
        storage.check()
    with pytest.raises(StorageUnavailableError, match="cannot keep blob"):
        storage.put_bytes(key_of(b"a"), b"a")


def test_a_file_of_another_file_system_is_copied(root: Path, tmp_path: Path) -> None:
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system at /dev/shm")
    source = other / f"strop-{tmp_path.name}"
    source.write_bytes(b"wheel")
    try:
        FileStorage(root).put_file(key_of(b"wheel"), source)
    finally:
        source.unlink()

    assert FileStorage(root).read(key_of(b"wheel")) == b"wheel"
