"""A settings schema as a table, whatever was uploaded."""

from typing import Any

import pytest

from strop_hub.web.setting_rows import MAX_ROWS, SettingRow, setting_rows


def row_of(prop: Any, **schema: Any) -> SettingRow:
    (row,) = setting_rows({"properties": {"size": prop}, **schema})
    return row


def test_a_setting_is_shown_with_type_bounds_default_and_meaning() -> None:
    row = row_of({"type": "integer", "default": 4, "minimum": 2, "description": "Squares."})

    assert row == SettingRow("size", "integer ≥ 2", "4", False, "Squares.")


def test_a_required_setting_is_marked() -> None:
    assert row_of({"type": "string"}, required=["size"]).is_required


@pytest.mark.parametrize(
    ("prop", "text"),
    [
        ({"enum": ["easy", 2, None]}, '"easy" | 2 | null'),
        ({"const": "x"}, '"x"'),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string | null"),
        ({"type": "array", "items": {"type": "number"}}, "array of number"),
        ({"$ref": "#/$defs/Mode"}, '"a"'),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, "number ≤ 1, > 0"),
        ({}, "any"),
    ],
)
def test_types_are_written_as_people_read_them(prop: Any, text: str) -> None:
    shown = row_of(prop, **{"$defs": {"Mode": {"enum": ["a"]}}}).type

    assert sorted(shown.replace(",", "").split()) == sorted(text.replace(",", "").split())


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        "x",
        7,
        {},
        {"properties": None},
        {"properties": []},
        {"properties": {"a": 3}},
        {"properties": {"a": {"enum": 3, "anyOf": "x", "type": ["x"], "description": {}}}},
        {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}},
        {"properties": {"a": {"minimum": "x", "maximum": True}}, "required": "a"},
        {"properties": {"\ud800": {"default": "\ud800"}}},
    ],
)
def test_any_schema_makes_a_table(schema: Any) -> None:
    assert len(setting_rows(schema)) <= 1


def test_a_schema_without_end_is_cut() -> None:
    rows = setting_rows({"properties": {f"s{i}": {"default": "x" * 9999} for i in range(999)}})

    assert len(rows) == MAX_ROWS
    assert len(rows[0].default) < 600
