"""Keeps a Python session: a line of JSON in, code run in one namespace, a line of JSON out."""

import ast
import io
import json
import os
import select
import signal
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from typing import Any


class _Capped(io.TextIOBase):
    """Keeps the first characters that are written, and counts the rest."""

    def __init__(self, cap: int) -> None:
        self.parts: list[str] = []
        self.room = cap
        self.is_cut = False

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.parts.append(text[: self.room])
        self.is_cut = self.is_cut or len(text) > self.room
        self.room = max(0, self.room - len(text))
        return len(text)


class Interrupts:
    """Reach code while it runs, and are kept for a piece that has come and not yet begun.

    One that comes when no piece is there was for one that has just ended: it is dropped.
    """

    def __init__(self, questions: int) -> None:
        """Hold them back; pieces of code come from a descriptor."""
        self._questions = questions
        self.forget()
        self.hold()

    def forget(self) -> None:
        """Before a piece is answered: after that one that comes is for the next."""
        self._has_piece = self._is_due = False

    def wait(self) -> None:
        """Until a piece of code is there."""
        select.select([self._questions], [], [])
        self._has_piece = True

    def allow(self) -> None:
        """Let the code's own handler have them.

        Raises:
            KeyboardInterrupt: One has come for this piece already.
        """
        signal.signal(signal.SIGINT, self._own)
        if self._is_due:
            raise KeyboardInterrupt

    def hold(self) -> None:
        """Keep them back from what is not the code's."""
        own = signal.getsignal(signal.SIGINT)
        if own != self._note:
            self._own = own
            signal.signal(signal.SIGINT, self._note)

    def _note(self, *_: Any) -> None:
        has_come = bool(select.select([self._questions], [], [], 0)[0])
        self._is_due = self._has_piece or has_come


def run_piece(code: str, names: dict[str, Any], cap: int, interrupts: Interrupts) -> dict[str, Any]:
    """Run one piece of code; give what it wrote, its last value, and whether it went well."""
    stdout, stderr = _Capped(cap), _Capped(cap)
    value, is_ok = None, True
    with redirect_stdout(stdout), redirect_stderr(stderr):
        try:
            try:
                interrupts.allow()
                value = _evaluate(code, names)
            finally:
                interrupts.hold()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is shown
            # An interrupt may have come before they were held.
            interrupts.hold()
            value, is_ok = None, False
            trace = error.__traceback__
            while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
                trace = trace.tb_next
            traceback.print_exception(error.with_traceback(trace))
    return {
        "is_ok": is_ok,
        "stdout": "".join(stdout.parts),
        "stderr": "".join(stderr.parts),
        "value": None if value is None else value[:cap],
        "is_truncated": stdout.is_cut or stderr.is_cut,
    }


def _evaluate(code: str, names: dict[str, Any]) -> str | None:
    tree = ast.parse(code, "<session>")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<session>", "exec"), names)  # noqa: S102 - what the session is for
    if not isinstance(last, ast.Expr):
        return None
    value = eval(compile(ast.Expression(last.value), "<session>", "eval"), names)  # noqa: S307
    names["_"] = value
    return None if value is None else repr(value)


def main() -> None:
    """Answer line by line until the input ends."""
    # What code prints past Python's own streams must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    questions = os.fdopen(os.dup(0), encoding="utf-8")
    empty = os.open("/dev/null", os.O_RDONLY)
    os.dup2(empty, 0)
    os.dup2(2, 1)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - lives to the end
    names: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    interrupts = Interrupts(questions.fileno())
    while True:
        interrupts.wait()
        line = questions.readline()
        if not line:
            return
        question = json.loads(line)
        answer = run_piece(question["code"], names, question["output_bytes"], interrupts)
        interrupts.forget()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
