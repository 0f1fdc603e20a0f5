"""Serves calls of a solution's functions: a line of JSON in, the value as a line of JSON out."""

import json
import os
import sys
from typing import Any

from strop.sandbox.inside.values import decode, encode


def answer(names: dict[str, Any], question: dict[str, Any]) -> dict[str, Any]:
    """Call a function; give its value and what it changed in its arguments, or its error."""
    try:
        arguments, named = decode(question["args"]), decode(question["kwargs"])
        value = encode(names[question["call"]](*arguments, **named))
        after = encode(arguments)
        changed = None if after == question["args"] else after
    except BaseException as error:  # noqa: BLE001 - whatever it is, the tests hear of it
        return {"error": type(error).__name__, "message": str(error)[:2000]}
    return {"value": value, "changed": changed}


def main(source: str) -> None:
    """Define the solution, then answer until the input ends."""
    # What the solution prints or reads must not mix with questions and answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    questions = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    os.dup2(2, 1)
    sys.setrecursionlimit(10_000)
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        exec(compile(source, "solution.py", "exec"), names)  # noqa: S102 - sandboxed
        fault = None
    except BaseException as error:  # noqa: BLE001 - the tests hear of it
        fault = {"error": type(error).__name__, "message": str(error)[:2000]}
    for line in questions:
        reply = fault or answer(names, json.loads(line))
        answers.write(json.dumps(reply) + "\n")
        answers.flush()
