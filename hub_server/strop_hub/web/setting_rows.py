"""A JSON schema of settings as rows of a table; the schema is uploaded and may be anything."""

import json
from dataclasses import dataclass
from typing import Any

MAX_ROWS = 100
_MAX_TEXT_CHARS = 500
_MAX_DEPTH = 4
_BOUNDS = (
    ("minimum", "≥ {}"),
    ("exclusiveMinimum", "> {}"),
    ("maximum", "≤ {}"),
    ("exclusiveMaximum", "< {}"),
)


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting as a person reads it."""

    name: str
    type: str
    default: str
    is_required: bool
    description: str


def setting_rows(schema: Any) -> list[SettingRow]:
    """The schema's properties in their order; what is not understood is left out."""
    properties = _object(schema).get("properties")
    required = _object(schema).get("required")
    required = required if isinstance(required, list) else []
    return [
        SettingRow(
            name=_cut(str(name)),
            type=_cut(_describe_type(_object(prop), _object(schema), 0)),
            default=_cut(_as_json(_object(prop).get("default"))),
            is_required=name in required,
            description=_cut(_text(_object(prop).get("description"))),
        )
        for name, prop in list(_object(properties).items())[:MAX_ROWS]
    ]


def _describe_type(prop: dict[str, Any], schema: dict[str, Any], depth: int) -> str:
    if depth > _MAX_DEPTH:
        return "…"
    if isinstance(prop.get("$ref"), str):
        return _describe_type(_dereference(prop["$ref"], schema), schema, depth + 1)
    if isinstance(prop.get("enum"), list):
        return " | ".join(_as_json(choice) for choice in prop["enum"][:20])
    if "const" in prop:
        return _as_json(prop["const"])
    choices = prop.get("anyOf") or prop.get("oneOf")
    if isinstance(choices, list):
        parts = [_describe_type(_object(choice), schema, depth + 1) for choice in choices[:20]]
        return " | ".join(dict.fromkeys(parts))
    kind = prop.get("type")
    if kind == "array":
        return f"array of {_describe_type(_object(prop.get('items')), schema, depth + 1)}"
    return " ".join([_text(kind) or "any", *_bounds(prop)])


def _bounds(prop: dict[str, Any]) -> list[str]:
    bounds = [
        form.format(prop[key])
        for key, form in _BOUNDS
        if isinstance(prop.get(key), int | float) and not isinstance(prop[key], bool)
    ]
    return [", ".join(bounds)] if bounds else []


def _dereference(reference: str, schema: dict[str, Any]) -> dict[str, Any]:
    return _object(_object(schema.get("$defs")).get(reference.removeprefix("#/$defs/")))


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT_CHARS else text[:_MAX_TEXT_CHARS] + "…"
