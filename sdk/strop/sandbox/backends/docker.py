"""Containers of Docker or Podman, through their command line."""

from __future__ import annotations

from strop.errors import SandboxUnavailableError
from strop.sandbox.base import Capabilities, Level, Profile, SandboxSpec
from strop.sandbox.channel import SocketChannel

DEFAULT_IMAGE = "python:3.11-slim"
_LABEL = "strop.sandbox"


class DockerTransport:
    """Placeholder until its stage."""

    name = "docker"

    @property
    def capabilities(self) -> Capabilities:
        """None yet."""
        return Capabilities(Level.CONTAINER, {}, {})

    async def open_run(self, profile: Profile) -> SocketChannel:
        """Refuse."""
        raise SandboxUnavailableError("no Docker or Podman command answers here")

    async def open_room(self, spec: SandboxSpec) -> SocketChannel:
        """Refuse."""
        raise SandboxUnavailableError("no Docker or Podman command answers here")

    async def close(self) -> None:
        """Nothing to end."""
