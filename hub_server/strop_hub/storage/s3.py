"""Blobs in an S3 bucket: conditional puts with their digest, presigned reads (step: store)."""

import base64
import hashlib
import io
import re
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from botocore.exceptions import BotoCoreError, ClientError

from strop_hub.errors import StorageFullError, StorageUnavailableError
from strop_hub.storage.base import StoredBlob, place_of
from strop_hub.storage.s3_file import S3File
from strop_hub.storage.small import SmallBlobs

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

MIB = 1024 * 1024
PART_BYTES = 16 * MIB
"""Of a part of a large upload: what a put holds in memory at once."""

SMALL_BYTES = 256 * 1024
"""Blobs up to this size are read whole and kept in memory, so that they outlive an outage."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_MISSING = {"404", "NoSuchKey", "NotFound"}
_THERE = {"412", "PreconditionFailed"}
_CONFLICT = {"409", "ConditionalRequestConflict"}
_CONFLICT_TRIES = 5
_FULL = {"507", "InsufficientStorage", "QuotaExceeded", "XMinioStorageFull", "ServiceQuotaExceeded"}


class S3Storage:
    """Blobs under ``<prefix>ab/<rest of the sha256>`` of one bucket."""

    def __init__(
        self, client: "S3Client", bucket: str, prefix: str = "", signer: "S3Client | None" = None
    ) -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._signer = signer
        self._small = SmallBlobs()

    def lease(self, keys: Collection[str]) -> None:
        """Without effect."""

    def put_file(self, sha256: str, path: Path) -> None:
        """Keep the bytes of the file at `path`; see `Storage.put_file`."""
        with _named_faults(f"blob {sha256}"), path.open("rb") as file:
            if path.stat().st_size <= PART_BYTES:
                self._put(sha256, file.read())
            elif not self._is_there(sha256):
                self._put_parts(sha256, file)

    def put_bytes(self, sha256: str, content: bytes) -> None:
        """Keep `content`; see `Storage.put_file`."""
        with _named_faults(f"blob {sha256}"):
            self._put(sha256, content)

    def has(self, sha256: str) -> bool:
        """Whether the blob is there."""
        with _named_faults(f"blob {sha256}"):
            return self._is_there(sha256)

    def size_bytes(self, sha256: str) -> int:
        """How large the blob is; KeyError when it is not there."""
        if (small := self._small.get(sha256)) is not None:
            return len(small)
        with _named_faults(f"blob {sha256}"), _missing_is_key_error(sha256):
            head = self._client.head_object(Bucket=self._bucket, Key=self._key(sha256))
            return head["ContentLength"]

    def read(self, sha256: str) -> bytes:
        """The whole blob; KeyError when it is not there."""
        with self.open(sha256) as file:
            return file.read()

    def open(self, sha256: str) -> BinaryIO:
        """The blob as a file whose bytes are checked; KeyError when it is not there."""
        if (small := self._small.get(sha256)) is not None:
            return io.BytesIO(small)
        with _named_faults(f"blob {sha256}"), _missing_is_key_error(sha256):
            answer = self._client.get_object(Bucket=self._bucket, Key=self._key(sha256))
            size_bytes = answer["ContentLength"]
            if size_bytes > SMALL_BYTES:
                file = S3File(sha256, size_bytes, self._read_from, answer["Body"])
                return cast(BinaryIO, io.BufferedReader(file, SMALL_BYTES))
            content = answer["Body"].read()
        return io.BytesIO(self._keep_small(sha256, content))

    def address(self, sha256: str) -> str:
        """Where the blob lies, as operators write it: ``s3://bucket/key``."""
        return f"s3://{self._bucket}/{self._key(sha256)}"

    def path(self, sha256: str) -> Path | None:
        """None: the bytes lie elsewhere."""
        return None

    def url(
        self, sha256: str, *, filename: str | None, media_type: str, lasts_s: int
    ) -> str | None:
        """A signed address of the blob, where clients can reach the bucket."""
        if self._signer is None:
            return None
        parameters = {
            "Bucket": self._bucket,
            "Key": self._key(sha256),
            "ResponseContentType": media_type,
        }
        if filename is not None:
            plain = re.sub(r"[^A-Za-z0-9._+!-]", "_", filename)
            parameters["ResponseContentDisposition"] = f'attachment; filename="{plain}"'
        return self._signer.generate_presigned_url(
            "get_object", Params=parameters, ExpiresIn=lasts_s
        )

    def blobs(self) -> Iterator[StoredBlob]:
        """Every blob, in no order."""
        pages = self._client.get_paginator("list_objects_v2")
        with _named_faults("the list of blobs"):
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix):
                for item in page.get("Contents", []):
                    sha256 = item["Key"].removeprefix(self._prefix).replace("/", "")
                    if _SHA256.fullmatch(sha256):
                        yield StoredBlob(sha256, item["Size"], item["LastModified"])

    def remove(self, sha256: str) -> None:
        """Forget a blob; without effect when it is not there."""
        self._small.remove(sha256)
        with _named_faults(f"blob {sha256}"):
            self._client.delete_object(Bucket=self._bucket, Key=self._key(sha256))

    def check(self) -> None:
        """Write and remove an object that is no blob."""
        with _named_faults("the bucket of blobs"):
            key = f"{self._prefix}.ready"
            self._client.put_object(Bucket=self._bucket, Key=key, Body=b"ready")
            self._client.delete_object(Bucket=self._bucket, Key=key)

    def _key(self, sha256: str) -> str:
        if _SHA256.fullmatch(sha256) is None:
            raise KeyError(sha256)
        return self._prefix + place_of(sha256)

    def _is_there(self, sha256: str) -> bool:
        try:
            with _missing_is_key_error(sha256):
                self._client.head_object(Bucket=self._bucket, Key=self._key(sha256))
        except KeyError:
            return False
        return True

    def _put(self, sha256: str, content: bytes) -> None:
        # The store itself compares the digest, and decides who was first.
        place: Any = {"Bucket": self._bucket, "Key": self._key(sha256)}
        place["ChecksumSHA256"] = base64.b64encode(bytes.fromhex(sha256)).decode()
        _put_if_absent(lambda: self._client.put_object(**place, Body=content, IfNoneMatch="*"))

    def _put_parts(self, sha256: str, file: BinaryIO) -> None:
        place: dict[str, Any] = {"Bucket": self._bucket, "Key": self._key(sha256)}
        upload: Any = self._client.create_multipart_upload(**place, ChecksumAlgorithm="SHA256")
        place["UploadId"] = upload["UploadId"]
        try:
            parts = self._send_parts(place, sha256, file)
            whole: Any = {"MultipartUpload": {"Parts": parts}, "IfNoneMatch": "*"}
            _put_if_absent(lambda: self._client.complete_multipart_upload(**place, **whole))
        except BaseException:
            with suppress(BotoCoreError, ClientError):
                self._client.abort_multipart_upload(**place)
            raise

    def _send_parts(self, place: dict[str, Any], sha256: str, file: BinaryIO) -> list[Any]:
        whole = hashlib.sha256()
        parts: list[Any] = []
        while content := file.read(PART_BYTES):
            whole.update(content)
            checksum = base64.b64encode(hashlib.sha256(content).digest()).decode()
            number = len(parts) + 1
            part = self._client.upload_part(
                **place, PartNumber=number, Body=content, ChecksumSHA256=checksum
            )
            parts.append({"PartNumber": number, "ETag": part["ETag"], "ChecksumSHA256": checksum})
        if whole.hexdigest() != sha256:
            raise StorageUnavailableError(f"the staged bytes of blob {sha256} have changed")
        return parts

    def _read_from(self, sha256: str, start: int) -> Any:
        with _named_faults(f"blob {sha256}"):
            return self._client.get_object(
                Bucket=self._bucket, Key=self._key(sha256), Range=f"bytes={start}-"
            )["Body"]

    def _keep_small(self, sha256: str, content: bytes) -> bytes:
        if hashlib.sha256(content).hexdigest() != sha256:
            raise StorageUnavailableError(
                f"the bytes under blob {sha256} in the bucket are others. "
                "Run `strop hub verify`, and put the blob back from a backup."
            )
        self._small.put(sha256, content)
        return content


def code_of(error: ClientError) -> str:
    """The store's own word for what went wrong."""
    return str(error.response.get("Error", {}).get("Code", ""))


@contextmanager
def _missing_is_key_error(sha256: str) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        if code_of(error) in _MISSING:
            raise KeyError(sha256) from None
        raise


def _put_if_absent(put: Callable[[], object]) -> None:
    for attempt in range(1, _CONFLICT_TRIES + 1):
        try:
            put()
            return
        except ClientError as error:
            code = code_of(error)
            if code in _THERE:
                return
            if code not in _CONFLICT or attempt == _CONFLICT_TRIES:
                raise
            # Another put of the same blob is under way, and may still fail.
            time.sleep(0.1 * attempt)


@contextmanager
def _named_faults(what: str) -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        if isinstance(error, ClientError) and code_of(error) in _FULL:
            raise StorageFullError(
                f"no space is left in the hub's bucket for {what}; nothing was kept. "
                "Ask the hub's operator for space, then repeat the request."
            ) from error
        raise StorageUnavailableError(
            f"the hub's bucket does not answer for {what}: {type(error).__name__}. "
            "Repeat the request later."
        ) from error
    except OSError as error:
        raise StorageUnavailableError(f"the hub cannot read {what}: {error.strerror}") from error
