"""Follow one run: move its bytes, keep its limits, notice its end."""

import os
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from strop.sandbox.wire import (
    END_STDIN,
    HEADER,
    SIGNAL,
    STDERR,
    STDIN,
    STDOUT,
    Request,
    pack_frame,
)
from strop.sandbox.zygote.meter import Usage

_TICK_S = 0.05
_GRACE_S = 0.02
"""How long output is still read after the end, when a survivor holds the pipes open."""
_CHUNK_BYTES = 1 << 16
_PENDING_BYTES = 1 << 20
_FLOOD_FACTOR = 4
_HUNG_UP = select.POLLHUP | select.POLLRDHUP | select.POLLERR


@dataclass(slots=True)
class Output:
    """One output stream: its first bytes are kept, the rest only counted."""

    tag: bytes
    kept: list[bytes] = field(default_factory=list)
    count: int = 0

    def take(self, chunk: bytes, cap: int) -> bytes:
        """Count a chunk and give the part of it that is kept."""
        room = max(0, cap - self.count)
        self.count += len(chunk)
        return chunk[:room]


@dataclass(slots=True)
class Streams:
    """The near ends of a run's standard streams."""

    stdin_fd: int
    stdout_fd: int
    stderr_fd: int


class Watch:
    """The loop over one run's descriptors.

    Attributes:
        ended_by: The limit that ended the run, ``client`` when the client went away, or None when
            it ended by itself.
    """

    def __init__(
        self,
        job: socket.socket,
        streams: Streams,
        exit_fd: int,
        request: Request,
        *,
        stdin: bytes,
        started_at: float,
        measure: Callable[[], Usage],
        send_signal: Callable[[int], None],
    ) -> None:
        self.started_at = started_at
        self.ended_by: str | None = None
        self.peak_bytes = 0
        self.cpu_s = 0.0
        self.outputs = {
            streams.stdout_fd: Output(STDOUT),
            streams.stderr_fd: Output(STDERR),
        }
        self._job, self._exit_fd = job, exit_fd
        self._stdin_fd = streams.stdin_fd
        self._limits = request.limits
        self._is_streaming = request.is_streaming
        self._measure, self._send_signal = measure, send_signal
        self._stdin = bytearray(stdin)
        self._ends_stdin = not request.is_streaming
        self._incoming, self._outgoing = bytearray(), bytearray()
        self._open = set(self.outputs)
        self._has_exited = False
        self._cpu_before_s: float | None = None
        self._checked_at = started_at
        self._poll = select.poll()

    @property
    def wall_s(self) -> float:
        """Since the run began."""
        return time.monotonic() - self.started_at

    def run(self) -> None:
        """Follow the run to its end, or until a limit is passed; nothing is killed here."""
        for fd in self.outputs:
            self._poll.register(fd, select.POLLIN)
        self._poll.register(self._exit_fd, select.POLLIN)
        os.set_blocking(self._stdin_fd, False)
        self._job.setblocking(False)
        self._feed()
        end_at = self.started_at + self._limits["wall_s"]
        while self.ended_by is None:
            self._watch_job()
            left_s = end_at - time.monotonic()
            if left_s <= 0:
                self.ended_by = "wall_s"
                break
            wait_s = _GRACE_S if self._has_exited else min(left_s, _TICK_S)
            events = self._poll.poll(wait_s * 1000)
            if self._has_exited and not events and not self._outgoing:
                break
            for fd, event in events:
                self._react(fd, event)
            self._keep_limits()
            if self._has_exited and not self._open and not self._outgoing:
                break
        self._job.setblocking(True)

    def _watch_job(self) -> None:
        """Say what is awaited of the client: its going away, its frames, room to write."""
        wanted = select.POLLRDHUP
        if self._is_streaming and len(self._stdin) < _PENDING_BYTES:
            wanted |= select.POLLIN
        if self._outgoing:
            wanted |= select.POLLOUT
        self._poll.register(self._job.fileno(), wanted)
        if not self._is_streaming:
            return
        # A client that does not read holds up the run, not this process.
        is_held_up = len(self._outgoing) > _PENDING_BYTES
        for fd in self._open:
            if not is_held_up:
                self._poll.register(fd, select.POLLIN)
            else:
                with suppress(KeyError):
                    self._poll.unregister(fd)

    def _react(self, fd: int, event: int) -> None:
        if fd == self._exit_fd:
            self._has_exited = True
            self._poll.unregister(fd)
        elif fd == self._stdin_fd:
            self._feed()
        elif fd == self._job.fileno():
            self._talk(event)
        elif event & (select.POLLIN | select.POLLHUP):
            self._read(fd)

    def _read(self, fd: int) -> None:
        chunk = os.read(fd, _CHUNK_BYTES)
        if not chunk:
            self._poll.unregister(fd)
            self._open.discard(fd)
            return
        output, cap = self.outputs[fd], int(self._limits["output_bytes"])
        kept = output.take(chunk, cap)
        if kept and self._is_streaming:
            self._outgoing += pack_frame(output.tag, kept)
        elif kept:
            output.kept.append(kept)
        if output.count > cap * _FLOOD_FACTOR:
            self.ended_by = "output_bytes"

    def _talk(self, event: int) -> None:
        if event & select.POLLOUT and self._outgoing:
            try:
                sent = self._job.send(self._outgoing)
            except BlockingIOError:
                sent = 0
            except OSError:
                self.ended_by = "client"
                return
            del self._outgoing[:sent]
        if event & select.POLLIN and self._is_streaming:
            self._hear()
        elif event & _HUNG_UP:
            self.ended_by = "client"

    def _hear(self) -> None:
        try:
            chunk = self._job.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self.ended_by = "client"
            return
        self._incoming += chunk
        while len(self._incoming) >= HEADER.size:
            tag, size = HEADER.unpack_from(self._incoming)
            if len(self._incoming) < HEADER.size + size:
                break
            payload = bytes(self._incoming[HEADER.size : HEADER.size + size])
            del self._incoming[: HEADER.size + size]
            self._obey(tag, payload)

    def _obey(self, tag: bytes, payload: bytes) -> None:
        if tag == STDIN:
            self._stdin += payload
        elif tag == END_STDIN:
            self._ends_stdin = True
        elif tag == SIGNAL:
            self._send_signal(payload[0])
        self._feed()

    def _feed(self) -> None:
        """Write what stdin takes, and close it when nothing more will come."""
        if self._stdin_fd < 0:
            self._stdin.clear()
            return
        try:
            while self._stdin:
                written = os.write(self._stdin_fd, self._stdin[:_CHUNK_BYTES])
                del self._stdin[:written]
        except BlockingIOError:
            self._poll.register(self._stdin_fd, select.POLLOUT)
            return
        except OSError:
            self._stdin.clear()
            self._ends_stdin = True
        with suppress(KeyError):
            self._poll.unregister(self._stdin_fd)
        if self._ends_stdin:
            os.close(self._stdin_fd)
            self._stdin_fd = -1

    def _keep_limits(self) -> None:
        now = time.monotonic()
        if now - self._checked_at < _TICK_S * 0.9:
            return
        self._checked_at = now
        used = self._measure()
        self.peak_bytes = max(self.peak_bytes, used.memory_bytes)
        if self._cpu_before_s is None:
            # The first look comes one tick after the start: what was used before it is at most
            # that tick on each core, and belongs to earlier cases for the greater part.
            self._cpu_before_s = max(0.0, used.cpu_s - (now - self.started_at))
        self.cpu_s = used.cpu_s - self._cpu_before_s
        if used.thread_count > self._limits["pid_count"]:
            self.ended_by = "pid_count"
        elif used.memory_bytes > self._limits["memory_bytes"]:
            self.ended_by = "memory_bytes"
        elif self.cpu_s > self._limits["cpu_s"]:
            self.ended_by = "cpu_s"

    def close(self) -> None:
        """Close stdin if the run has not taken all of it."""
        if self._stdin_fd >= 0:
            os.close(self._stdin_fd)
            self._stdin_fd = -1
