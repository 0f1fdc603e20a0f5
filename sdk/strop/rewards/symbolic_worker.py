"""The process that compares expressions: a JSON line in, a JSON line out (step: reward).

It runs as a script, imports nothing of Strop, and is ended by the kernel when the CPU time of a
comparison is spent: a handler in Python would have to wait until a long multiplication is over,
and the libraries would swallow what it raises.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import os
import re
import resource
import signal
import sys
from typing import Any

_PR_SET_PDEATHSIG = 1
_PEAK_SHARE = 0.8
"""Of the memory limit: a comparison that came so far may have met it, and is not trusted."""

_DECIMAL = re.compile(r"\.([0-9]{1,6})")
_BASE = re.compile(r"[0-9]\}?_")
"""A number in another base, such as ``101_2``."""

_NO_VALUE = (ArithmeticError, AttributeError, RuntimeError, TypeError, ValueError)
"""What the libraries raise about expressions without a value, or of kinds that never compare."""


def main() -> None:
    """Serve until standard input ends."""
    parent, memory_limit_bytes = int(sys.argv[1]), int(sys.argv[2])
    replies = _own_stdout()
    _die_with(parent)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGPROF])
    resource.setrlimit(resource.RLIMIT_AS, (memory_limit_bytes, memory_limit_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    logging.disable(logging.CRITICAL)
    # The first comparison is not charged for what it would have to import.
    compare(r"\frac{1}{2}+x", "x+0.5")
    for line in sys.stdin.buffer:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, request["cpu_limit_s"])
        reply = answer(request, memory_limit_bytes)
        signal.setitimer(signal.ITIMER_PROF, 0)
        os.write(replies, json.dumps(reply).encode() + b"\n")


def answer(request: dict[str, Any], memory_limit_bytes: int) -> dict[str, Any]:
    """The reply to one request: the verdict, or the problem that left none."""
    too_much = f"it took more than {memory_limit_bytes // 1024**2} MiB of memory"
    try:
        is_equal = compare(request["answer"], request["reference"])
    except MemoryError:
        return {"problem": too_much}
    except Exception as error:  # noqa: BLE001 - the boundary of the libraries
        return {"problem": f"math-verify raised {type(error).__name__}: {error!s:.200}"}
    # The libraries swallow errors of memory and then hold the two for different.
    if not is_equal and _peak_bytes() > memory_limit_bytes * _PEAK_SHARE:
        return {"problem": too_much}
    return {"is_equal": is_equal}


def compare(answer: str, reference: str) -> bool:
    """Whether `math-verify` holds two expressions for equal.

    An answer that cannot be read, or that has no value, equals nothing, and neither does an
    equation of two numbers that are not the same.
    """
    import math_verify

    parsed = []
    for text in (reference, answer):
        # The text is read as a whole: nothing in it is searched for something that would fit.
        parsed.append(
            math_verify.parse(
                f"\\boxed{{{text}}}",
                [math_verify.LatexExtractionConfig(boxed_match_priority=0)],
                extraction_mode="first_match",
                parsing_timeout=None,
            )
        )
    with contextlib.suppress(*_NO_VALUE):
        is_equal = math_verify.verify(*parsed, timeout_seconds=None, raise_on_error=True)
        return is_equal and _is_one_number(parsed[1][0], answer)
    return False


def _is_one_number(expression: Any, answer: str) -> bool:
    """Whether no two sides of an equation are different numbers: not so for ``17 = 18``.

    Decimals may be rounded to the fewest places. Sides with letters are names and may be anything.
    """
    import math_verify
    import sympy
    from sympy.core.function import AppliedUndef
    from sympy.functions.elementary import trigonometric as angles

    # Degrees and the bases of numbers are not in what the libraries read.
    unsure = (sympy.pi, angles.TrigonometricFunction, angles.InverseTrigonometricFunction)
    names = (sympy.E, sympy.I, AppliedUndef, *unsure)
    if not isinstance(expression, (sympy.Eq, sympy.And)) or _BASE.search(answer):
        return True
    sides = [side for relation in expression.atoms(sympy.Eq) for side in relation.args]
    numbers = [side for side in sides if not (side.free_symbols or side.has(*names))]
    places = min((len(match[1]) for match in _DECIMAL.finditer(answer)), default=6)
    return all(
        math_verify.verify(
            numbers[0], number, float_rounding=places, timeout_seconds=None, raise_on_error=True
        )
        for number in numbers[1:]
    )


def _own_stdout() -> int:
    # Libraries print to standard output; replies go where nobody else writes.
    replies = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return replies


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        # The parent is the thread that started this process: it lives as long as its worker.
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the caller has gone")


def _peak_bytes() -> int:
    # The limit is on addresses, not on what is resident.
    with contextlib.suppress(FileNotFoundError), open("/proc/self/status") as lines:
        for line in lines:
            if line.startswith("VmPeak:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
