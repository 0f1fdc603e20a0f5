"""Programs as policies: their calls of a model become an episode's turns (step: rollout).

An `AgentEpisode` starts a program that believes to talk to OpenAI or Anthropic. Each of its
calls becomes the episode's due completion, and the answer goes back to the program.
"""

from strop.serve.intercept.episode import AgentEpisode
from strop.serve.intercept.program import Program

__all__ = ["AgentEpisode", "Program"]
