"""What every store of blobs must do."""

import hashlib
import random
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from strop.errors import ConfigError
from strop_hub.errors import StorageUnavailableError
from strop_hub.settings import Settings
from strop_hub.storage import FileStorage, Storage, open_storage
from strop_hub.storage.s3 import S3Storage
from tests.hub_server import backends
from tests.servers.processes import free_ports


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "blobs"
    root.mkdir()
    return root


@pytest.fixture(params=["filesystem", "s3"])
def storage(request: pytest.FixtureRequest, root: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    return FileStorage(root) if request.param == "filesystem" else a_bucket(root, monkeypatch)


def a_bucket(root: Path, monkeypatch: pytest.MonkeyPatch, **given: str) -> S3Storage:
    for name, value in backends.credentials().items():
        monkeypatch.setenv(name, value)
    server = backends.seaweed()
    settings = Settings.read(
        {},
        data=root,
        storage_url=f"s3://{server.new_bucket()}/of/blobs",
        s3_endpoint_url=server.url,
        **given,
    )
    storage = open_storage(settings)
    assert isinstance(storage, S3Storage)
    return storage


def overwrite(storage: S3Storage, sha256: str, content: bytes) -> None:
    client = backends.seaweed().client()
    (bucket,) = [
        bucket["Name"]
        for bucket in client.list_buckets()["Buckets"]
        if storage.address(sha256).startswith(f"s3://{bucket['Name']}/")
    ]
    key = storage.address(sha256).removeprefix(f"s3://{bucket}/")
    client.put_object(Bucket=bucket, Key=key, Body=content)
    client.close()


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


def test_a_blob_that_was_removed_is_gone_and_can_be_put_again(storage: Storage) -> None:
    storage.put_bytes(key_of(b"a"), b"a")
    storage.remove(key_of(b"a"))
    storage.remove(key_of(b"a"))

    assert not storage.has(key_of(b"a"))
    with pytest.raises(KeyError):
        storage.read(key_of(b"a"))

    storage.put_bytes(key_of(b"a"), b"a")
    assert storage.read(key_of(b"a")) == b"a"


def test_all_blobs_are_listed_with_size_and_time(storage: Storage) -> None:
    before = datetime.now(UTC) - timedelta(seconds=5)
    for content in (b"", b"a", b"wheel"):
        storage.put_bytes(key_of(content), content)
    storage.check()

    listed = {blob.sha256: blob for blob in storage.blobs()}

    assert {key: blob.size_bytes for key, blob in listed.items()} == {
        key_of(b""): 0,
        key_of(b"a"): 1,
        key_of(b"wheel"): 5,
    }
    assert all(before < blob.stored_at <= datetime.now(UTC) for blob in listed.values())


def test_a_large_file_comes_back_whole_and_in_any_part(storage: Storage, tmp_path: Path) -> None:
    content = random.Random(0).randbytes(40 * 1024 * 1024 + 7)
    (tmp_path / "upload").write_bytes(content)

    storage.put_file(key_of(content), tmp_path / "upload")

    assert storage.size_bytes(key_of(content)) == len(content)
    with storage.open(key_of(content)) as file:
        file.seek(17_000_000)
        assert file.read(100) == content[17_000_000:17_000_100]
        file.seek(0)
        assert file.read(300_000) == content[:300_000]
    assert storage.read(key_of(content)) == content


def test_a_bucket_refuses_bytes_of_another_digest(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = a_bucket(root, monkeypatch)

    with pytest.raises(StorageUnavailableError):
        storage.put_bytes(key_of(b"a"), b"b")

    assert not storage.has(key_of(b"a"))


def test_bytes_that_somebody_changed_in_a_bucket_are_never_given_out(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = a_bucket(root, monkeypatch)
    large = b"wheel" * 100_000
    for content in (b"a", large):
        storage.put_bytes(key_of(content), content)
        overwrite(storage, key_of(content), b"!" * len(content))

        with pytest.raises(StorageUnavailableError, match="are others"):
            storage.read(key_of(content))


def test_clients_that_reach_the_bucket_get_a_signed_address_that_ends(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = a_bucket(root, monkeypatch)
    storage = a_bucket(root, monkeypatch, s3_public_url=backends.seaweed().url)
    storage.put_bytes(key_of(b"wheel"), b"wheel")

    def address(lasts_s: int) -> str:
        url = storage.url(
            key_of(b"wheel"), filename="a-1.whl", media_type="application/zip", lasts_s=lasts_s
        )
        assert url is not None
        return url

    answer = httpx.get(address(60))
    part = httpx.get(address(60), headers={"range": "bytes=1-2"})
    other = httpx.get(address(60).replace("X-Amz-Signature=", "X-Amz-Signature=0"))

    assert (answer.status_code, answer.content) == (200, b"wheel")
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"] == 'attachment; filename="a-1.whl"'
    assert (part.status_code, part.content) == (206, b"he")
    assert other.status_code == 403
    assert closed.url(key_of(b"wheel"), filename=None, media_type="", lasts_s=60) is None


def test_a_bucket_that_does_not_answer_is_named(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in backends.credentials().items():
        monkeypatch.setenv(name, value)
    (port,) = free_ports(1)
    storage = open_storage(
        Settings.read(
            {}, data=root, storage_url="s3://b", s3_endpoint_url=f"http://127.0.0.1:{port}"
        )
    )
    for act in (storage.has, storage.read, storage.size_bytes, storage.remove):
        with pytest.raises(StorageUnavailableError, match="does not answer"):
            act(key_of(b"a"))
    with pytest.raises(StorageUnavailableError):
        storage.put_bytes(key_of(b"a"), b"a")
    with pytest.raises(StorageUnavailableError):
        storage.check()


@pytest.mark.parametrize("url", ["s3://", "gs://bucket", "bucket"])
def test_an_address_that_is_no_store_is_refused(root: Path, url: str) -> None:
    with pytest.raises(ConfigError, match="s3://BUCKET"):
        open_storage(Settings.read({}, data=root, storage_url=url))


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


def test_what_was_read_once_outlives_the_bucket(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = a_bucket(root, monkeypatch)
    storage.put_bytes(key_of(b"small"), b"small")
    storage.read(key_of(b"small"))

    overwrite(storage, key_of(b"small"), b"other")

    assert storage.read(key_of(b"small")) == b"small"
    assert storage.size_bytes(key_of(b"small")) == 5
