"""Blobs: bytes under their sha256; the protocol and what keeps it."""

from strop_hub.storage.base import Storage, StoredBlob
from strop_hub.storage.filesystem import FileStorage
from strop_hub.storage.opening import open_storage

__all__ = ["FileStorage", "Storage", "StoredBlob", "open_storage"]
