"""A small model on this machine's processor, behind an OpenAI-compatible endpoint on loopback.

Needs the extra ``local``, which brings the engine; `strop.models.local.weights` tells where the
weights come from.
"""

from strop.models.local.server import LocalServer
from strop.models.local.weights import KNOWN, Weights, fetch_weights, find_weights

__all__ = ["KNOWN", "LocalServer", "Weights", "fetch_weights", "find_weights"]
