"""The engine's own process: serves until the end of its standard input, and so of its parent.

Run as ``python -m strop.models.local.engine`` with its settings as one line of JSON on standard
input; the first line on standard output is the address.
"""

import json
import os
import signal
import sys
import threading
from typing import Any

_HOST = "127.0.0.1"
_PROMPT_CACHE_MIB = 256
_VERBOSITY = 2
"""Errors and warnings: what is said for each request would fill the log."""


def main() -> None:
    """Serve until nobody holds the other end of standard input."""
    # Ctrl-C goes to everything on a terminal, and only the parent should decide.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = json.loads(sys.stdin.readline())
    # From before the weights load: that takes seconds, and the parent may die meanwhile.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    server = start(settings)
    sys.stdout.write(json.dumps({"address": server.listening_address}) + "\n")
    sys.stdout.flush()
    threading.Event().wait()


def start(settings: dict[str, Any]) -> Any:
    """The running server of xllamacpp, which is llama.cpp's."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.model_alias = {settings["model"]}
    params.hostnames, params.port = [_HOST], settings["port"]
    params.n_parallel = settings["slots"]
    # The engine divides its context among the slots.
    params.n_ctx = settings["context_tokens"] * settings["slots"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.cache_ram_mib = _PROMPT_CACHE_MIB
    params.use_jinja = True
    params.verbosity = _VERBOSITY
    if settings.get("template"):
        params.chat_template = settings["template"]
    params.ui = params.endpoint_slots = False
    # Pages of the web have no business here.
    params.cors_origins = "null"
    return xllamacpp.Server(params)


def _end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    # The engine's threads do not end by themselves.
    os._exit(0)


if __name__ == "__main__":
    main()
