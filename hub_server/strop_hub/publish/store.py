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
    size_bytes: int
    """Of both."""


def store(storage: Storage, candidate: Candidate) -> StoredParts:
    """Keep the wheel, its METADATA, the source and the README.

    Raises:
        StorageFullError: No space is left; what was kept so far is named by no row.
        StorageUnavailableError: The store does not answer.
    """
    reach("publish.store")
    metadata = candidate.facts.metadata
    readme = candidate.readme
    files = [candidate.wheel] if candidate.source is None else [candidate.wheel, candidate.source]
    size_bytes = len(metadata) + len(readme)
    parts = StoredParts(_digest(metadata), _digest(readme) if readme else None, size_bytes)
    made = [sha256 for sha256 in (parts.metadata_sha256, parts.readme_sha256) if sha256]
    storage.lease([*(file.sha256 for file in files), *made])
    reach("publish.store-wheel")
    storage.put_file(candidate.wheel.sha256, candidate.wheel.path)
    reach("publish.store-metadata")
    storage.put_bytes(parts.metadata_sha256, metadata)
    reach("publish.store-source")
    if candidate.source is not None:
        storage.put_file(candidate.source.sha256, candidate.source.path)
    reach("publish.store-readme")
    if parts.readme_sha256 is not None:
        storage.put_bytes(parts.readme_sha256, readme)
    return parts


def stored_keys(candidate: Candidate, parts: StoredParts) -> list[str]:
    """Of every blob that `store` keeps of a candidate."""
    files = [candidate.wheel.sha256, candidate.source and candidate.source.sha256]
    return [key for key in (*files, parts.metadata_sha256, parts.readme_sha256) if key]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
