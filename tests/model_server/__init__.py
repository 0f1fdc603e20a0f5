"""A model server on loopback: the public dialects over a deterministic engine that can fail."""

from tests.model_server.sampling import POLICIES, Policy, Said
from tests.model_server.server import ModelServer, serve_in_a_process
from tests.model_server.wire import Call, Fault

__all__ = ["POLICIES", "Call", "Fault", "ModelServer", "Policy", "Said", "serve_in_a_process"]
