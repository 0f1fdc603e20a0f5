"""An episode with a sandbox of its own, from its setup to its close (step: rollout)."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from strop.episode import Episode
from strop.errors import EnvironmentFaultError, EpisodeUseError
from strop.sandbox.base import SandboxSpec
from strop.sandbox.client import Backend
from strop.sandbox.repository import open_repository
from strop.sandboxed.workspace import Workspace, make_folder
from strop.types import JSON

if TYPE_CHECKING:
    from strop.sandboxed.environment import SandboxEnvironment


class SandboxEpisode(Episode):
    """An episode whose model acts in a sandbox; every episode has another one.

    What the sandbox is (backend, level, limits, network, and what is not enforced) stands in the
    trajectory's `outcome` under ``sandbox``, level and backend in its `isolation`. A sandbox that
    fails makes the attempt a failure of the boundary ``sandbox``, never a reward of 0.

    Overrides of `setup` begin with ``await super().setup()``, those of `close` end with
    ``await super().close()``.
    """

    has_workspace: ClassVar[bool] = True
    """Whether the model acts in a sandbox. False where code is only judged: then `setup` opens
    none, and judging goes through `backend`."""

    _workspace: Workspace | None = None

    @property
    def workspace(self) -> Workspace:
        """Where the model works.

        Raises:
            EpisodeUseError: `setup` has not run, or the episode is closed.
        """
        if self._workspace is None:
            raise EpisodeUseError("The episode has no sandbox: it is not open.")
        return self._workspace

    @property
    def backend(self) -> Backend:
        """Where its sandbox lives; hidden tests get a fresh one here."""
        return self._home.backend

    @property
    def spec(self) -> SandboxSpec:
        """Of its sandbox; override it where tasks differ."""
        return self._home.spec

    @property
    def source(self) -> Path | bytes | None:
        """A folder, or a tar archive of one, to work on; None begins with an empty folder.

        It comes under git, so that `strop.sandbox.repository` can tell what was changed.
        """
        return None

    @property
    def _home(self) -> SandboxEnvironment:
        if not hasattr(self._environment, "backend"):
            raise EnvironmentFaultError(
                f"`{type(self).__name__}` needs a SandboxEnvironment, which owns its sandboxes."
            )
        return cast("SandboxEnvironment", self._environment)

    async def setup(self) -> None:
        """Open the sandbox and put the source into it.

        Raises:
            SandboxError: It cannot be opened.
        """
        capabilities = self.backend.capabilities
        self.isolation = f"{capabilities.isolation.name.lower()} ({self.backend.name})"
        self.outcome["sandbox"] = self._record()
        if not self.has_workspace:
            return
        try:
            self._workspace = await self._open()
            if self.source is None:
                await make_folder(self._workspace.sandbox)
        except BaseException:
            await SandboxEpisode.close(self)
            raise

    async def _open(self) -> Workspace:
        source, spec = self.source, self.spec
        if source is None:
            sandbox = await self.backend.create(spec)
        else:
            repository = await open_repository(
                self.backend,
                source,
                mounts=spec.profile.mounts,
                env=spec.env,
                limits=spec.limits,
            )
            sandbox = repository.sandbox
        attempt = self.attempt
        rollout = f"{attempt.split}/{attempt.task_key}/{attempt.visit}/{attempt.member}"
        return Workspace(self.backend, sandbox, rollout=rollout, conduct=self._home.conduct)

    async def close(self) -> None:
        """End the sandbox with all that runs in it."""
        workspace, self._workspace = self._workspace, None
        if workspace is not None:
            await workspace.stop()

    def _record(self) -> JSON:
        capabilities = self.backend.capabilities
        not_enforced: list[JSON] = [*sorted(capabilities.not_enforced)]
        return {
            "backend": self.backend.name,
            "isolation": capabilities.isolation.name.lower(),
            "network": self.spec.network,
            "limits": asdict(self.spec.limits),
            "not_enforced": not_enforced,
        }
