"""Hold modules, functions and the share of tests to the sizes of the architecture.

Run as ``python -m tests.architecture.sizes``; lists every file that is over a stop.
"""

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.tree import ROOT, list_modules

MODULE_LINES = 450
FUNCTION_LINES = 60
POSITIONAL_PARAMETERS = 5

_NO_CODE = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
)

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def module_problems(path: Path, text: str, *, is_test: bool) -> Iterator[str]:
    """Every stop that a module is over."""
    line_count = text.count("\n")
    if line_count > MODULE_LINES:
        yield f"{path}: {line_count} lines, the stop is {MODULE_LINES}. Split the module."
    for node in ast.walk(ast.parse(text, str(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _function_problems(path, node, is_test=is_test)


def _function_problems(path: Path, function: _Function, *, is_test: bool) -> Iterator[str]:
    where = f"{path}:{function.lineno} {function.name}"
    line_count = (function.end_lineno or function.lineno) - function.lineno + 1
    if line_count > FUNCTION_LINES:
        yield f"{where}: {line_count} lines, the stop is {FUNCTION_LINES}. Name its steps."
    names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
    if names[:1] in (["self"], ["cls"]):
        names = names[1:]
    # A test's parameters are its fixtures.
    if not is_test and len(names) > POSITIONAL_PARAMETERS:
        yield (
            f"{where}: {len(names)} positional parameters, the stop is {POSITIONAL_PARAMETERS}. "
            "Make the rest keyword-only, or give them a type of their own."
        )


def count_lines(text: str) -> int:
    """Lines that hold code: blank ones, comments and docstrings apart."""
    prose: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            prose.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - prose)


def main() -> int:
    """Print every problem and the share of tests; 1 when there is a problem."""
    modules = [(path, (ROOT / path).read_text(), is_test) for path, is_test in list_modules()]
    problems = [
        problem
        for path, text, is_test in modules
        for problem in module_problems(path, text, is_test=is_test)
    ]
    code_count = sum(count_lines(text) for _, text, is_test in modules if not is_test)
    test_count = sum(count_lines(text) for _, text, is_test in modules if is_test)
    ratio = test_count / max(code_count, 1)
    if ratio < 1:
        problems.append(f"{test_count} lines of tests are fewer than {code_count} lines of code")
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"Sizes: {code_count} lines of code, {test_count} of tests, {ratio:.2f} to 1")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
