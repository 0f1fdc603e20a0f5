"""A command that runs beside its caller, with streams in both directions."""

from __future__ import annotations

from typing import Literal, Self

from strop.errors import SandboxError
from strop.sandbox.base import Channel, ExecResult
from strop.sandbox.result import Origin, read_result
from strop.sandbox.wire import END_STDIN, RESULT, SIGNAL, STDERR, STDIN, STDOUT, pack_frame

_CHUNK_BYTES = 1 << 16


class Job:
    """One running command; not for several readers at once.

    Its output is held back inside the sandbox while nobody reads.
    """

    def __init__(self, channel: Channel, origin: Origin) -> None:
        self._channel, self._origin = channel, origin
        self._buffers = {STDOUT: bytearray(), STDERR: bytearray()}
        self.result: ExecResult | None = None
        """None until it has ended and all its output was received."""
        self._is_killed = False

    @property
    def is_over(self) -> bool:
        """Whether it was killed from here, or its end was received."""
        return self._is_killed or self.result is not None

    async def write(self, content: bytes) -> None:
        """Send to its stdin."""
        for start in range(0, len(content), _CHUNK_BYTES):
            await self._channel.send(pack_frame(STDIN, content[start : start + _CHUNK_BYTES]))

    async def end_input(self) -> None:
        """Close its stdin."""
        await self._channel.send(pack_frame(END_STDIN))

    async def signal(self, number: int) -> None:
        """Send a signal to it and its process group."""
        await self._channel.send(pack_frame(SIGNAL, bytes([number])))

    async def read(
        self, stream: Literal["stdout", "stderr"] = "stdout", most_bytes: int = _CHUNK_BYTES
    ) -> bytes:
        """Give what it has written next; empty when it has ended."""
        buffer = self._buffers[STDOUT if stream == "stdout" else STDERR]
        while not buffer and self.result is None:
            await self._advance()
        chunk = bytes(buffer[:most_bytes])
        del buffer[:most_bytes]
        return chunk

    async def read_line(self, most_bytes: int = 1 << 24) -> bytes:
        """Give the next line of stdout with its end; what is left, if it has ended.

        Raises:
            SandboxError: The line is longer than `most_bytes`.
        """
        buffer = self._buffers[STDOUT]
        searched = 0
        while (end := buffer.find(b"\n", searched)) < 0 and self.result is None:
            if len(buffer) > most_bytes:
                raise SandboxError(f"a line of output is longer than {most_bytes} bytes")
            searched = len(buffer)
            await self._advance()
        size = end + 1 if end >= 0 else len(buffer)
        line = bytes(buffer[:size])
        del buffer[:size]
        return line

    def take_errors(self) -> bytes:
        """Give what has come from stderr so far and was not read."""
        taken = bytes(self._buffers[STDERR])
        self._buffers[STDERR].clear()
        return taken

    async def wait(self) -> ExecResult:
        """Wait for its end; the result's outputs are what was not read before."""
        while self.result is None:
            await self._advance()
        return self.result

    def kill(self) -> None:
        """End it with all that it has started; at once, and as often as one likes."""
        self._is_killed = True
        self._channel.close()

    async def _advance(self) -> None:
        """Take in one frame."""
        reply = await self._channel.receive()
        if reply is None:
            self._channel.close()
            raise SandboxError(
                f"a command in {self._origin.backend} was lost: it was killed from here, or its "
                "supervisor died. Start it again."
            )
        if reply.tag in self._buffers:
            self._buffers[reply.tag] += reply.payload
        elif reply.tag == RESULT:
            self.result = read_result(reply.payload, self._origin)
            self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.kill()
