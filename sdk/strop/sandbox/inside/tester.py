"""Runs tests whose subject lives in another sandbox, and tells the verdict."""

import builtins
import json
import os
import sys
from typing import Any

from strop.sandbox.inside.values import decode, encode


class Raised(Exception):
    """What the solution raised; of the same built-in class, so that tests can catch it."""


class Subject:
    """Stands for the solution: calls of its functions go out, values come back."""

    def __init__(self) -> None:
        self.questions = os.fdopen(os.dup(1), "w", encoding="utf-8")
        self.answers = os.fdopen(os.dup(0), encoding="utf-8")
        self.count = 0

    def function(self, name: str) -> Any:
        """Give a function that is called over there."""

        def call(*arguments: Any, **named: Any) -> Any:
            words = {"call": name, "args": encode(list(arguments)), "kwargs": encode(named)}
            self.tell(words)
            line = self.answers.readline()
            if not line:
                sys.exit(3)
            self.count += 1
            return self._read(json.loads(line), arguments)

        return call

    def _read(self, reply: dict[str, Any], arguments: tuple[Any, ...]) -> Any:
        if "error" in reply:
            raise _exception(str(reply["error"]), str(reply["message"]))
        if reply["changed"] is not None:
            for argument, changed in zip(arguments, decode(reply["changed"]), strict=True):
                _update(argument, changed)
        return decode(reply["value"])

    def tell(self, words: dict[str, Any]) -> None:
        """Send one line."""
        self.questions.write(json.dumps(words) + "\n")
        self.questions.flush()


def _exception(name: str, message: str) -> Exception:
    known = getattr(builtins, name, None)
    if isinstance(known, type) and issubclass(known, Exception):
        try:
            error: Exception = type(name, (Raised, known), {})(message)
        except TypeError:
            return Raised(f"{name}: {message}")
        return error
    return Raised(f"{name}: {message}")


def _update(argument: Any, changed: Any) -> None:
    """Change an argument in place, as the solution has changed its copy."""
    if isinstance(argument, (list, bytearray)):
        argument[:] = changed
    elif isinstance(argument, (dict, set)):
        argument.clear()
        argument.update(changed)


def judge(tests: str, entry_points: list[str], last_words: str) -> None:
    """Run the tests; tell a verdict and what led to it."""
    subject = Subject()
    os.dup2(2, 1)
    names: dict[str, Any] = {name: subject.function(name) for name in entry_points}
    names["__name__"] = "__tests__"
    try:
        exec(compile(tests, "tests.py", "exec"), names)  # noqa: S102 - sandboxed
        if last_words:
            exec(compile(last_words, "tests.py", "exec"), names)  # noqa: S102 - sandboxed
    except AssertionError as error:
        verdict = "error" if isinstance(error, Raised) else "failed"
        subject.tell({"verdict": verdict, "message": str(error)[:2000]})
    except Raised as error:
        subject.tell({"verdict": "error", "message": f"{type(error).__name__}: {error}"[:2000]})
    except (NameError, ImportError, SyntaxError) as error:
        subject.tell({"verdict": "broken", "message": f"{type(error).__name__}: {error}"})
    except Exception as error:  # noqa: BLE001 - a value that the tests cannot work with
        verdict = "failed" if subject.count else "broken"
        subject.tell({"verdict": verdict, "message": f"{type(error).__name__}: {error}"[:2000]})
    else:
        subject.tell({"verdict": "passed", "message": ""})
