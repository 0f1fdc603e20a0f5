"""An environment that owns the backend in which its episodes' sandboxes live (step: author)."""

from __future__ import annotations

from typing import Any

from strop.environment import Environment
from strop.errors import EnvironmentFaultError, SettingsError
from strop.sandbox.base import Level, SandboxSpec
from strop.sandbox.choose import BackendName, open_backend
from strop.sandbox.client import Backend
from strop.sandboxed.episode import SandboxEpisode
from strop.sandboxed.workspace import Conduct

_SPEC = SandboxSpec()
_CONDUCT = Conduct()


class SandboxEnvironment(Environment):
    """An environment whose episodes each have a sandbox of their own.

    It is used inside ``async with``, as `strop.run` and `strop.evaluate` do.

    Example:
        >>> environment = SandboxEnvironment(
        ...     tasks=tasks, rewards=[solved], tools=sandbox_tools("bash", "python")
        ... )
    """

    def __init__(
        self,
        *,
        backend: Backend | BackendName = "auto",
        min_isolation: Level | None = None,
        concurrency: int | None = None,
        spec: SandboxSpec = _SPEC,
        conduct: Conduct = _CONDUCT,
        episode: type[SandboxEpisode] = SandboxEpisode,
        **definition: Any,
    ) -> None:
        """Define an environment.

        Args:
            backend: An open backend, which stays open, or the name of one to open.
            min_isolation: Of a backend to open: nothing weaker is taken. None: namespaces or
                stronger, unless `backend` names one, which is taken as it is.
            concurrency: Of a backend to open: runs at the same time. None: twice the cores.
            spec: Limits, network, variables and profile of every episode's sandbox.
            conduct: Test command and length of answers.
            episode: How a task is played.
            definition: As for `Environment`.

        Raises:
            SettingsError: A value is out of its range.
        """
        if not issubclass(episode, SandboxEpisode):
            raise SettingsError(f"`{episode.__name__}` is no SandboxEpisode. Derive it from one.")
        super().__init__(episode=episode, **definition)
        self.spec = spec
        self.conduct = conduct
        self._wanted = backend
        self._min_isolation, self._concurrency = min_isolation, concurrency
        self._backend: Backend | None = None

    @property
    def backend(self) -> Backend:
        """Where its sandboxes live; hidden tests get a fresh one here.

        Raises:
            EnvironmentFaultError: The environment is not open.
        """
        if self._backend is None:
            raise EnvironmentFaultError(
                "The environment's sandbox backend is not open. Use the environment inside "
                "`async with`."
            )
        return self._backend

    async def setup(self) -> None:
        """Open the backend; an override begins with ``await super().setup()``.

        Raises:
            SandboxUnavailableError: None works here; every attempt is named with its remedy.
        """
        if isinstance(self._wanted, Backend):
            self._backend = self._wanted
            return
        self._backend = await open_backend(
            self._wanted,
            min_isolation=self._min_isolation,
            concurrency=self._concurrency,
            limits=self.spec.limits,
        )

    async def close(self) -> None:
        """End the backend with all that is left in it; an override ends with this one."""
        backend, self._backend = self._backend, None
        if backend is not None and backend is not self._wanted:
            await backend.close()
