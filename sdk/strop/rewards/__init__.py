"""Ready-made reward functions; each loads what it needs when it is first used (step: author)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strop.rewards.boxed import boxed_answer, boxed_math
    from strop.rewards.judge import judge
    from strop.rewards.number import last_number, numeric, parse_number
    from strop.rewards.text import exact, normalize_text
    from strop.rewards.unit import parse_quantity, parse_unit, plain_text, quantity

_HOMES = {
    "boxed_answer": "boxed",
    "boxed_math": "boxed",
    "exact": "text",
    "judge": "judge",
    "last_number": "number",
    "normalize_text": "text",
    "numeric": "number",
    "parse_number": "number",
    "parse_quantity": "unit",
    "parse_unit": "unit",
    "plain_text": "unit",
    "quantity": "unit",
}

__all__ = [
    "boxed_answer",
    "boxed_math",
    "exact",
    "judge",
    "last_number",
    "normalize_text",
    "numeric",
    "parse_number",
    "parse_quantity",
    "parse_unit",
    "plain_text",
    "quantity",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'strop.rewards' has no attribute {name!r}")
    value = getattr(import_module(f"strop.rewards.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
