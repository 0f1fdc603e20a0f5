"""Step *store*: every blob of a candidate, before any row (step: publish).

A blob that no row names is harmless; a row that names no blob is not.
"""

import hashlib
from dataclasses import dataclass

from strop_hub.publish.failpoints import reach
from strop_hub.publish.validate import Candidate
from strop_hub.storage import Storage


@dataclass(frozen=True, slots=True)
class StoredParts:
    """Keys of the blobs that the hub itself made out of a wheel."""

    metadata_sha256: str
    readme_sha256: str | None


def store(storage: Storage, candidate: Candidate) -> StoredParts:
    """Keep the wheel, its METADATA, the source and the README.

    Raises:
        StorageFullError: No space is left; what was kept so far is named by no row.
        StorageUnavailableError: The store does not answer.
    """
    reach("publish.store")
    reach("publish.store-wheel")
    storage.put_file(candidate.wheel.sha256, candidate.wheel.path)
    reach("publish.store-metadata")
    metadata_sha256 = _put(storage, candidate.facts.metadata)
    reach("publish.store-source")
    if candidate.source is not None:
        storage.put_file(candidate.source.sha256, candidate.source.path)
    reach("publish.store-readme")
    # The README may hold lone surrogates, which are no UTF-8.
    readme = candidate.facts.readme.encode(errors="replace")
    return StoredParts(metadata_sha256, _put(storage, readme) if readme else None)


def _put(storage: Storage, content: bytes) -> str:
    sha256 = hashlib.sha256(content).hexdigest()
    storage.put_bytes(sha256, content)
    return sha256
