"""Small blobs in memory: what was read once is served even when the store is away."""

import threading
from collections import OrderedDict

MAX_BYTES = 32 * 1024 * 1024


class SmallBlobs:
    """The blobs that were read last, up to `MAX_BYTES` together; for any thread."""

    def __init__(self) -> None:
        self._blobs: OrderedDict[str, bytes] = OrderedDict()
        self._size_bytes = 0
        self._lock = threading.Lock()

    def get(self, sha256: str) -> bytes | None:
        """The blob, if it is here."""
        with self._lock:
            content = self._blobs.get(sha256)
            if content is not None:
                self._blobs.move_to_end(sha256)
            return content

    def put(self, sha256: str, content: bytes) -> None:
        """Keep a blob, at the cost of those that nobody has read for the longest time."""
        with self._lock:
            if sha256 in self._blobs:
                return
            self._blobs[sha256] = content
            self._size_bytes += len(content)
            while self._size_bytes > MAX_BYTES:
                _, dropped = self._blobs.popitem(last=False)
                self._size_bytes -= len(dropped)

    def remove(self, sha256: str) -> None:
        """Forget a blob."""
        with self._lock:
            content = self._blobs.pop(sha256, b"")
            self._size_bytes -= len(content)
