"""The process that runs one author function at a time: JSON lines in and out (step: reward)."""

from __future__ import annotations

import ctypes
import importlib
import json
import numbers
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve until the caller hangs up."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.dup(1)
    # The author's code, and what it starts, has neither of the two pipes.
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    _die_with(int(sys.argv[1]))
    function: Callable[..., Any] | None = None
    for line in requests:
        request = json.loads(line)
        try:
            if "module" in request:
                function, reply = _find(request["module"], request["name"]), {}
            else:
                assert function is not None
                reply = {"value": _plain(function(_given(request)))}
        except BaseException as error:  # noqa: BLE001 - the boundary of author code
            text = "".join(traceback.format_exception(error, limit=-8))
            reply = {"error": f"raised {type(error).__name__}: {error}", "traceback": text}
        _write(replies, json.dumps(reply).encode("ascii") + b"\n")


def _find(module: str, name: str) -> Callable[..., Any]:
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    # The decorators put a `Reward` in the function's place.
    function: Callable[..., Any] = getattr(found, "function", found)
    return function


def _given(request: dict[str, Any]) -> Any:
    from strop.trajectory_json import from_json

    members = [from_json(each) for each in request["members"]]
    return members if request["is_group"] else members[0]


def _plain(value: Any) -> Any:
    """What JSON can carry; anything else as its text, which is no number."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return repr(value)


def _write(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the caller has gone")


if __name__ == "__main__":
    main()
