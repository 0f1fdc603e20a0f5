"""Calls that fit the schema of a tool, made up by chance (step: check)."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from strop.types import JSON, ToolCall, ToolSpec

Schema: TypeAlias = Mapping[str, Any]

_DEPTH = 4
"""Containers in each other from which on only what must be there is written."""
_MORE_ITEMS = 3
_MOST_WORDS = 4
_LOW, _HIGH = -10, 100
"""Of numbers without bounds."""
_FORMATS = {
    "date": "2024-02-29",
    "time": "12:30:00Z",
    "date-time": "2024-02-29T12:30:00Z",
    "duration": "PT90S",
    "uuid": "12345678-1234-4678-9234-567812345678",
    "email": "ada@example.org",
    "uri": "https://example.org/",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "binary": "bytes",
}
_FOR_PATTERNS = ("a", "A", "0", "1", "42", "0.5", "a1", "abc", "1,2", "12:30", *_FORMATS.values())


def random_call(spec: ToolSpec, words: Sequence[str], rng: random.Random) -> ToolCall:
    """A call of a tool whose arguments fit its schema; the model gives it an id."""
    return ToolCall("", spec.name, json.dumps(random_arguments(spec.parameters, words, rng)))


def random_arguments(
    schema: Mapping[str, Any], words: Sequence[str], rng: random.Random
) -> dict[str, JSON]:
    """Arguments that fit a JSON schema of an object.

    Patterns are met where one of a few common texts meets them. Source: JSON Schema 2020-12.

    Args:
        schema: Of the arguments, as `ToolSpec.parameters` has it.
        words: Of which texts are made, at least one.
        rng: Decides everything.
    """
    value = _Writer(schema, words, rng).value(schema)
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class _Writer:
    root: Schema
    words: Sequence[str]
    rng: random.Random
    depth: int = 0

    def value(self, schema: Any) -> JSON:
        whole = self._whole(schema)
        if "const" in whole:
            constant: JSON = whole["const"]
            return constant
        if whole.get("enum"):
            chosen: JSON = self.rng.choice(whole["enum"])
            return chosen
        match self._type(whole):
            case "null":
                return None
            case "boolean":
                return self.rng.random() < 0.5
            case "integer" | "number" as kind:
                return self._number(whole, is_whole=kind == "integer")
            case "array":
                return self._deeper._array(whole)
            case "object":
                return self._deeper._object(whole)
        return self._text(whole)

    @property
    def _deeper(self) -> _Writer:
        return replace(self, depth=self.depth + 1)

    @property
    def _is_deep(self) -> bool:
        return self.depth > _DEPTH

    def _whole(self, schema: Any) -> dict[str, Any]:
        """A schema with its reference followed, its parts joined and one alternative chosen."""
        whole = dict(schema) if isinstance(schema, Mapping) else {}
        if isinstance(reference := whole.pop("$ref", None), str):
            whole = {**self._whole(self._found(reference)), **whole}
        for part in whole.pop("allOf", ()):
            whole = _joined(whole, self._whole(part))
        for key in ("anyOf", "oneOf"):
            if options := whole.pop(key, None):
                whole = _joined(whole, self._whole(self._option(options)))
        return whole

    def _found(self, reference: str) -> Any:
        found: Any = self.root
        for part in reference.removeprefix("#").strip("/").split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key, {}) if isinstance(found, Mapping) else {}
        return found

    def _option(self, options: Sequence[Any]) -> Any:
        # Deep down, what holds nothing further ends a schema that names itself.
        ends = [each for each in options if isinstance(each, Mapping) and _is_plain(each)]
        return self.rng.choice(ends if self._is_deep and ends else list(options))

    def _type(self, schema: Schema) -> str | None:
        kind = schema.get("type")
        if isinstance(kind, list):
            return str(self.rng.choice(kind)) if kind else None
        if kind is None and ("properties" in schema or "required" in schema):
            return "object"
        return kind if isinstance(kind, str) else None

    def _number(self, schema: Schema, *, is_whole: bool) -> int | float:
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        high = schema.get("maximum", schema.get("exclusiveMaximum"))
        if low is None:
            low = _LOW if high is None else high - (_HIGH - _LOW)
        if high is None:
            high = max(low, _LOW) + (_HIGH - _LOW)
        if step := schema.get("multipleOf"):
            first, last = -(-low // step), high // step
            low, high, size = first, last, step
        else:
            size = 1
        if is_whole or step:
            above = "exclusiveMinimum" in schema and low * size == schema["exclusiveMinimum"]
            below = "exclusiveMaximum" in schema and high * size == schema["exclusiveMaximum"]
            least, most = -(-low // 1) + above, high // 1 - below
            number = self.rng.randint(int(least), max(int(least), int(most))) * size
            return int(number) if is_whole else number
        return float(low + (high - low) * self.rng.uniform(0.01, 0.99))

    def _text(self, schema: Schema) -> str:
        if (given := _FORMATS.get(schema.get("format", ""))) is not None:
            return given
        least, most = schema.get("minLength", 0), schema.get("maxLength")
        count = self.rng.randint(1, _MOST_WORDS)
        text = " ".join(self.rng.choice(self.words) for _ in range(count))
        text = text.ljust(least, "a")[:most]
        pattern = schema.get("pattern")
        if isinstance(pattern, str) and not _matches(pattern, text):
            known = (each for each in _FOR_PATTERNS if _matches(pattern, each))
            return next((each for each in known if least <= len(each)), text)
        return text

    def _array(self, schema: Schema) -> list[JSON]:
        firsts = schema.get("prefixItems", ())
        least = max(schema.get("minItems", 0), len(firsts) if "minItems" in schema else 0)
        most = schema.get("maxItems", max(least, len(firsts)) + _MORE_ITEMS)
        if schema.get("items") is False or ("items" not in schema and firsts):
            most = min(most, len(firsts))
        count = least if self._is_deep else self.rng.randint(least, max(least, most))
        items: list[JSON] = []
        for place in range(count):
            part = firsts[place] if place < len(firsts) else schema.get("items", {})
            item = self.value(part)
            if not schema.get("uniqueItems") or item not in items:
                items.append(item)
        return items

    def _object(self, schema: Schema) -> dict[str, JSON]:
        required = schema.get("required", ())
        found: dict[str, JSON] = {}
        for name, part in schema.get("properties", {}).items():
            if name in required or (not self._is_deep and self.rng.random() < 0.5):
                found[name] = self.value(part)
        further = schema.get("additionalProperties")
        if isinstance(further, Mapping) and not self._is_deep:
            least = schema.get("minProperties", 0)
            for _ in range(self.rng.randint(least, least + 2)):
                found[str(self.value(schema.get("propertyNames", {})))] = self.value(further)
        return found


def _joined(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    joined = {**left, **right}
    for key in ("properties", "$defs"):
        if key in left and key in right:
            joined[key] = {**left[key], **right[key]}
    if "required" in left and "required" in right:
        joined["required"] = [*left["required"], *right["required"]]
    return joined


def _is_plain(schema: Schema) -> bool:
    return schema.get("type") not in ("array", "object") and not (
        {"$ref", "anyOf", "oneOf", "allOf"} & schema.keys()
    )


def _matches(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return False
