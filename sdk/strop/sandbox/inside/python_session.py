"""Keeps a Python session: a line of JSON in, code run in one namespace, a line of JSON out."""

import ast
import io
import json
import os
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


def run_piece(code: str, names: dict[str, Any], cap: int) -> dict[str, Any]:
    """Run one piece of code; give what it wrote, its last value, and whether it went well."""
    stdout, stderr = _Capped(cap), _Capped(cap)
    value, is_ok = None, True
    with redirect_stdout(stdout), redirect_stderr(stderr):
        try:
            value = _evaluate(code, names)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is shown
            is_ok = False
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
    while True:
        try:
            line = questions.readline()
            if not line:
                return
            question = json.loads(line)
            answer = run_piece(question["code"], names, question["output_bytes"])
        except KeyboardInterrupt:
            # Came between two pieces: whoever sent it has an answer already.
            continue
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
