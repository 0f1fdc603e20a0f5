"""Environments whose models act in a sandbox: an episode, an environment, and their tools."""

from strop.sandboxed.environment import SandboxEnvironment
from strop.sandboxed.episode import SandboxEpisode
from strop.sandboxed.tools import ToolName, sandbox_tools
from strop.sandboxed.workspace import Workspace

__all__ = ["SandboxEnvironment", "SandboxEpisode", "ToolName", "Workspace", "sandbox_tools"]
