"""Every error that Strop raises on purpose; each message says what, which and what to do.

StropError
├── InvalidRefError          the text is not ``owner/name[@selector]``
├── SettingsError            settings do not fit ``load_environment``
├── RowError                 a row of a data set cannot be read, or is no task
├── EnvironmentLoadError     an environment's entry point is missing, broken or ambiguous
├── EpisodeUseError          an episode was driven in a way that it does not allow
├── ToolError                raised by a tool: the model is told, the rollout goes on
├── SpoiledWorkspaceError    code left its sandbox so that nothing can be taken out; scored as 0
├── BoundaryError            a fault behind a boundary; becomes a trajectory's failure
│   ├── EnvironmentFaultError    author code: setup, tools' machinery, ``respond``, ``close``
│   │   └── EnvironmentLostError     whoever serves the environment is gone, or forgot the episode
│   ├── ToolFaultError           a tool raised what it does not declare
│   ├── RewardError              a reward function raised or returned no usable number
│   ├── SandboxError             the sandbox failed, not the code inside
│   │   ├── SandboxUnavailableError  this machine offers no sandbox that is strong enough
│   │   └── SandboxBusyError         too many runs wait already
│   └── ModelError               the model's endpoint
│       ├── ModelUnavailableError    timeouts, resets, 429, 5xx: worth another try
│       ├── ModelAuthError           401, 403, TLS wants a certificate: no attempt can succeed
│       ├── ModelRequestError        any other 4xx: this attempt cannot succeed
│       ├── ContextOverflowError     the prompt is longer than the context
│       ├── ModelReplyError          a reply that is no completion
│       ├── NoCompletionError        the driver asked for the result before any completion
│       └── RendererError            a conversation that token ids cannot tell
├── ServeRefusedError        who serves an environment refuses: another secret, no such server
├── RunStoppedError          a run stopped itself: authentication, failure budget
├── UnwritableError          a value that JSON readers would refuse: too many digits, too deep
├── TrajectoryFileError      a trajectory file cannot be read or may not be written
├── ManifestError            `[tool.strop]` or ``strop.json`` is wrong; every problem is named
├── PackageError             an archive breaks a rule
│   ├── SecretFoundError         a push would publish a secret
│   └── BuildError               the build backend failed
├── ConfigError              the configuration is missing something or cannot be read
├── HubError                 an exchange with a hub failed
│   ├── HubUnreachableError      nobody answers, or not in time
│   ├── NotAHubError             something answers that is no Strop hub
│   ├── HubRefusedError          the hub answered with a problem
│   └── DigestMismatchError      the bytes that came are not those that were promised
└── InstallError             the installer failed, or what is installed is not what was asked for
"""


class StropError(Exception):
    """Base class: ``except StropError`` catches everything that Strop raises on purpose."""


class InvalidRefError(StropError, ValueError):
    """The text does not name an environment."""


class SettingsError(StropError, ValueError):
    """Settings that ``load_environment`` does not take, or of a wrong type."""


class RowError(StropError, ValueError):
    """Rows of a data set cannot be read, or one of them is no task; the message names it."""


class EnvironmentLoadError(StropError):
    """An environment cannot be loaded."""


class EpisodeUseError(StropError, RuntimeError):
    """An episode was driven in a way that it does not allow; the driver is at fault."""


class ToolError(StropError):
    """Raised by a tool's author: the message goes to the model and the rollout goes on."""


class SpoiledWorkspaceError(StropError):
    """Code left its files so that they cannot be taken out of its sandbox.

    The code is to blame: no `SandboxError`, so that an environment scores it as no solution rather
    than excuse the attempt.
    """


class BoundaryError(StropError):
    """A fault behind a boundary; a rollout turns it into its trajectory's failure."""

    boundary = "environment"


class EnvironmentFaultError(BoundaryError):
    """Author code raised."""


class EnvironmentLostError(EnvironmentFaultError):
    """The process that serves the environment is gone, silent, or knows the episode no more."""


class ToolFaultError(BoundaryError):
    """A tool raised an error that it does not declare."""

    boundary = "tool"


class RewardError(BoundaryError):
    """A reward function raised, or returned no finite number within its range."""

    boundary = "reward"


class SandboxError(BoundaryError):
    """The sandbox failed; the code inside is not to blame."""

    boundary = "sandbox"


class SandboxUnavailableError(SandboxError):
    """This machine offers no such sandbox; the message names what was tried and the remedy."""

    def __init__(self, message: str, *, errno: int | None = None) -> None:
        super().__init__(message)
        self.errno = errno
        """Of the call that the kernel refused; None when it was no such call."""


class SandboxBusyError(SandboxError):
    """More runs wait for their turn than the backend lets in."""


class ModelError(BoundaryError):
    """The model's endpoint failed."""

    boundary = "model"
    is_retryable = False

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        """Seconds that the endpoint asks to wait; None when it did not say."""


class ModelUnavailableError(ModelError):
    """A timeout, a broken connection, 429 or 5xx: another try may succeed."""

    is_retryable = True


class ModelAuthError(ModelError):
    """401, 403, or TLS refuses the client certificate: no attempt of this run can succeed."""


class ModelRequestError(ModelError):
    """The endpoint refuses this request; the same request will be refused again."""


class ContextOverflowError(ModelError):
    """The prompt, or prompt and completion, do not fit into the model's context."""


class ModelReplyError(ModelError):
    """The endpoint answered 2xx with something that is no completion."""

    is_retryable = True


class NoCompletionError(ModelError):
    """The driver asked for the result before any completion: there is nothing to score."""


class RendererError(ModelError):
    """A conversation that a vocabulary or a chat template cannot tell."""


class ServeRefusedError(StropError):
    """A server of environments refuses: the secret is another, or it is no such server."""


class RunStoppedError(StropError):
    """A run stopped before its last attempt; finished trajectories are on disk."""


class UnwritableError(StropError, ValueError):
    """A value of a task, an outcome or a reply that JSON readers would refuse."""


class TrajectoryFileError(StropError):
    """A trajectory file cannot be read, or may not be written."""


class ManifestError(StropError, ValueError):
    """A manifest is wrong."""

    def __init__(self, where: str, problems: list[str]) -> None:
        lines = "\n".join(f"  - {problem}" for problem in problems)
        super().__init__(f"{where}:\n{lines}")
        self.where = where
        self.problems = problems
        """Every problem, not only the first."""


class PackageError(StropError, ValueError):
    """An archive breaks a rule; the message names the rule and the member."""


class SecretFoundError(PackageError):
    """A push would publish a secret."""


class BuildError(PackageError):
    """The build backend failed."""


class ConfigError(StropError):
    """The configuration lacks something, or cannot be read."""


class HubError(StropError):
    """An exchange with a hub failed."""


class HubUnreachableError(HubError):
    """Nobody answers at the hub's address, or not in time."""


class NotAHubError(HubError):
    """Something answers at the address, but it is no Strop hub."""


class HubRefusedError(HubError):
    """The hub answered with a problem."""

    def __init__(self, detail: str, *, status: int, code: str, request_id: str | None) -> None:
        suffix = f" (request {request_id})" if request_id else ""
        super().__init__(detail + suffix)
        self.status = status
        self.code = code
        """Stable, for programs; `docs/reference/errors.md` lists all."""
        self.request_id = request_id


class DigestMismatchError(HubError):
    """The bytes that came are not those that were promised."""


class InstallError(StropError):
    """The installer failed, or what is installed is not what was asked for."""
