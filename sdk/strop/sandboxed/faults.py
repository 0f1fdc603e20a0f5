"""Faults: small changes of a syntax tree, each a piece of source for another (step: author)."""

import ast
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import Any

_OLD = "Lt LtE Gt GtE Eq NotEq In Is IsNot Add Sub Mult FloorDiv Mod And Or"
_NEW = "LtE Lt GtE Gt NotEq Eq NotIn IsNot Is Sub Add Add Mult FloorDiv Or And"
_OPERATORS = dict(zip(_OLD.split(), _NEW.split(), strict=True))
_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Fault:
    """Where a source file was changed, and what that does."""

    path: str
    start: int
    """Of the piece, in bytes of UTF-8."""
    end: int
    text: str
    """What stands there instead."""
    failing: dict[str, str] = field(default_factory=dict)
    """From the tests that fail because of it to what they give."""

    def applied(self, source: str) -> str:
        """The source with the fault in it."""
        content = source.encode()
        return (content[: self.start] + self.text.encode() + content[self.end :]).decode()


def possible_faults(path: str, source: str) -> list[Fault]:
    """Every change that is known, in the order of the source."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node in _nodes(ast.parse(source)):
        if (changed := _changed(node)) is not None:
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            found.append(Fault(path, start, end, ast.unparse(changed)))
    return sorted(found, key=lambda fault: (fault.start, fault.end, fault.text))


def _nodes(tree: ast.AST) -> Iterator[Any]:
    # Places inside of formatted strings are only known from Python 3.12 on.
    if not isinstance(tree, ast.JoinedStr):
        yield tree
        for child in ast.iter_child_nodes(tree):
            yield from _nodes(child)


def _changed(node: Any) -> Any:
    made, operator = copy(node), getattr(node, "op", None) or getattr(node, "ops", [None])[0]
    name = type(operator).__name__
    if name in _OPERATORS:
        made.op = getattr(ast, _OPERATORS[name])()
        made.ops = [made.op, *getattr(node, "ops", [])[1:]]
        return made
    if name == "Not":
        return node.operand
    if isinstance(node, ast.IfExp):
        return ast.IfExp(node.test, node.orelse, node.body)
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return ast.Constant(not node.value if isinstance(node.value, bool) else node.value + 1)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        return node.func.value
    if isinstance(node, ast.Call) and (name := getattr(node.func, "id", "")) in _FUNCTIONS:
        return ast.Call(ast.Name(_FUNCTIONS[name]), node.args, node.keywords)
    return None
