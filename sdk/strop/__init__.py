"""Write, share and run reinforcement-learning environments for language models.

The public names load when they are first used: `import strop` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strop.attempt import Attempt
    from strop.environment import Environment
    from strop.episode import Episode
    from strop.errors import StropError, ToolError
    from strop.evaluation import Report, evaluate, summarize
    from strop.hub.load import load
    from strop.hub.refs import EnvRef
    from strop.limits import TimeLimits
    from strop.mixture import Mixture
    from strop.models.openai import OpenAIModel
    from strop.models.scripted import ScriptedModel
    from strop.reward_function import Reward, group_reward, metric, reward, turn_reward
    from strop.runner import RunPlan, run
    from strop.serve.client import RemoteEnvironment
    from strop.serve.intercept import AgentEpisode, Program
    from strop.sync import run_sync
    from strop.task import Task, TaskSet
    from strop.tools import tool
    from strop.trajectory import Failure, Trajectory
    from strop.trajectory_file import read_trajectories
    from strop.types import (
        Completion,
        End,
        Message,
        Model,
        Part,
        Sampling,
        ToolCall,
        ToolSpec,
        Usage,
    )

_HOMES = {
    "AgentEpisode": "serve.intercept",
    "Attempt": "attempt",
    "Completion": "types",
    "End": "types",
    "EnvRef": "hub.refs",
    "Environment": "environment",
    "Episode": "episode",
    "Failure": "trajectory",
    "Message": "types",
    "Mixture": "mixture",
    "Model": "types",
    "OpenAIModel": "models.openai",
    "Part": "types",
    "Program": "serve.intercept",
    "RemoteEnvironment": "serve.client",
    "Report": "evaluation",
    "Reward": "reward_function",
    "RunPlan": "runner",
    "Sampling": "types",
    "ScriptedModel": "models.scripted",
    "StropError": "errors",
    "Task": "task",
    "TimeLimits": "limits",
    "TaskSet": "task",
    "ToolCall": "types",
    "ToolError": "errors",
    "ToolSpec": "types",
    "Trajectory": "trajectory",
    "Usage": "types",
    "evaluate": "evaluation",
    "group_reward": "reward_function",
    "load": "hub.load",
    "metric": "reward_function",
    "read_trajectories": "trajectory_file",
    "reward": "reward_function",
    "run": "runner",
    "run_sync": "sync",
    "summarize": "evaluation",
    "tool": "tools",
    "turn_reward": "reward_function",
}

__all__ = [
    "AgentEpisode",
    "Attempt",
    "Completion",
    "End",
    "EnvRef",
    "Environment",
    "Episode",
    "Failure",
    "Message",
    "Mixture",
    "Model",
    "OpenAIModel",
    "Part",
    "Program",
    "RemoteEnvironment",
    "Report",
    "Reward",
    "RunPlan",
    "Sampling",
    "ScriptedModel",
    "StropError",
    "Task",
    "TaskSet",
    "TimeLimits",
    "ToolCall",
    "ToolError",
    "ToolSpec",
    "Trajectory",
    "Usage",
    "evaluate",
    "group_reward",
    "load",
    "metric",
    "read_trajectories",
    "reward",
    "run",
    "run_sync",
    "summarize",
    "tool",
    "turn_reward",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'strop' has no attribute {name!r}")
    value = getattr(import_module(f"strop.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
