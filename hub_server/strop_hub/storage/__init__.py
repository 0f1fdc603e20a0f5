"""Blobs: bytes under their sha256; the protocol and what keeps it."""

from strop_hub.storage.base import Storage
from strop_hub.storage.filesystem import FileStorage

__all__ = ["FileStorage", "Storage"]
