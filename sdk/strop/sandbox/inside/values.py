"""Plain values as JSON and back, so that they cross between sandboxes without their classes."""

import builtins
import collections
import decimal
import fractions
import math
from typing import Any

_SAFE_INTEGER = 1 << 53
_BUILT_IN = {kind: name for name, kind in vars(builtins).items() if isinstance(kind, type)}


def encode(value: Any) -> Any:
    """Give `value` as something that JSON holds exactly; of a subclass, the plain value.

    Raises:
        TypeError: It is no plain value and holds none.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        plain = int.__index__(value)
        return plain if abs(plain) < _SAFE_INTEGER else {"i": hex(plain)}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"f": float.__repr__(value)}
    return _encode_container(value)


def _encode_container(value: Any) -> Any:
    if isinstance(value, list):
        return [encode(item) for item in list.__iter__(value)]
    if isinstance(value, dict):
        return {"d": [[encode(key), encode(item)] for key, item in dict.items(value)]}
    for kind, letter in _SEQUENCES:
        if isinstance(value, kind):
            return {letter: [encode(item) for item in kind.__iter__(value)]}
    if isinstance(value, (bytes, bytearray)):
        return {"b" if isinstance(value, bytes) else "a": bytes(value).hex()}
    if isinstance(value, complex):
        return {"c": [encode(value.real), encode(value.imag)]}
    if isinstance(value, range):
        return {"r": [encode(part) for part in (value.start, value.stop, value.step)]}
    if isinstance(value, decimal.Decimal):
        return {"D": str(value)}
    if isinstance(value, fractions.Fraction):
        return {"F": [encode(value.numerator), encode(value.denominator)]}
    if isinstance(value, type) and value in _BUILT_IN:
        return {"T": _BUILT_IN[value]}
    if hasattr(value, "__next__") or isinstance(value, _VIEWS):
        return {"n": [encode(item) for item in value]}
    raise TypeError(f"{type(value).__name__} is no plain value and cannot leave its sandbox")


def decode(text: Any) -> Any:
    """Give back what `encode` was given.

    Raises:
        ValueError: `encode` has not written this.
    """
    if isinstance(text, list):
        return [decode(item) for item in text]
    if not isinstance(text, dict):
        return text
    if len(text) != 1:
        raise ValueError("no encoded value")
    ((letter, content),) = text.items()
    if letter not in _DECODERS:
        raise ValueError(f"no encoded value: {letter!r}")
    try:
        return _DECODERS[letter](content)
    except (TypeError, KeyError, IndexError, ArithmeticError) as error:
        raise ValueError(f"no encoded value: {letter!r}: {error}") from error


_SEQUENCES: tuple[tuple[Any, str], ...] = (
    (tuple, "t"),
    (frozenset, "z"),
    (set, "s"),
    (collections.deque, "q"),
)
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_TYPES = {name: kind for kind, name in _BUILT_IN.items()}
_DECODERS: dict[str, Any] = {
    "d": lambda content: {decode(key): decode(item) for key, item in content},
    "i": lambda content: int(content, 16),
    "f": float,
    "t": lambda content: tuple(decode(item) for item in content),
    "z": lambda content: frozenset(decode(item) for item in content),
    "s": lambda content: {decode(item) for item in content},
    "q": lambda content: collections.deque(decode(item) for item in content),
    "n": lambda content: iter([decode(item) for item in content]),
    "b": bytes.fromhex,
    "a": bytearray.fromhex,
    "c": lambda content: complex(decode(content[0]), decode(content[1])),
    "r": lambda content: range(*(decode(part) for part in content)),
    "T": lambda content: _TYPES[content],
    "D": decimal.Decimal,
    "F": lambda content: fractions.Fraction(decode(content[0]), decode(content[1])),
}
