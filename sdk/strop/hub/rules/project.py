"""Turns a ``pyproject.toml`` into a manifest's document, without judging values (step: package)."""

from collections.abc import Mapping
from typing import Any

from strop.errors import InvalidRefError
from strop.hub.refs import normalize_name

ENTRY_POINT_GROUP = "strop.environments"

TOOL_KEYS = (
    "category",
    "tags",
    "reward-range",
    "deterministic",
    "sandbox",
    "secrets",
    "platform",
    "requires",
)
"""The keys of ``[tool.strop]``; the other fields come from ``[project]``."""

LABELS = {
    "name": "project.name",
    "version": "project.version",
    "summary": "project.description",
    "license": "project.license",
    "authors": "project.authors",
    "urls": "project.urls",
    "requires-python": "project.requires-python",
    "dependencies": "project.dependencies",
    "entry-point": f'project.entry-points."{ENTRY_POINT_GROUP}"',
} | {key: f"tool.strop.{key}" for key in TOOL_KEYS}
"""How each key of a manifest is called in ``pyproject.toml``."""


def project_document(
    content: Mapping[str, Any], dynamic_version: str
) -> tuple[dict[str, Any], list[str]]:
    """The document that `content` states, and what is wrong with its form.

    Args:
        content: A parsed ``pyproject.toml``.
        dynamic_version: Stands for a version that the build backend computes.
    """
    problems: list[str] = []
    project = _table(content, "project", problems)
    tool = _table(_table(content, "tool", problems), "strop", problems, "tool.strop")
    document = _project_fields(project, dynamic_version, problems)
    known = ", ".join(TOOL_KEYS)
    problems += [
        f"`tool.strop.{key}` is unknown. Known are {known}"
        for key in sorted(tool.keys() - set(TOOL_KEYS))
    ]
    document |= {key: value for key, value in tool.items() if key in TOOL_KEYS}
    return document, problems


def _table(
    parent: Mapping[str, Any], key: str, problems: list[str], label: str | None = None
) -> dict[str, Any]:
    value = parent.get(key, {})
    if isinstance(value, dict):
        return value
    problems.append(f"`{label or key}` must be a table")
    return {}


def _project_fields(project: dict[str, Any], version: str, problems: list[str]) -> dict[str, Any]:
    """What ``[project]`` states; what is dynamic is filled in once the wheel is built."""
    document = {
        "name": project.get("name"),
        "version": project.get("version"),
        "summary": project.get("description"),
        "requires-python": project.get("requires-python"),
        "dependencies": project.get("dependencies", []),
        "license": _license(project.get("license")),
        "authors": _authors(project.get("authors", [])),
        "urls": project.get("urls", {}),
        "entry-point": _project_entry_point(project, problems),
    }
    dynamic = project.get("dynamic", [])
    if isinstance(dynamic, list) and "version" in dynamic:
        document["version"] = version
    if isinstance(dynamic, list) and "description" in dynamic:
        document["summary"] = "Known once the wheel is built"
    return document


def _license(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    text = value.get("text")
    return text.strip().partition("\n")[0] if isinstance(text, str) else None


def _authors(value: Any) -> Any:
    if not isinstance(value, list) or not all(isinstance(author, dict) for author in value):
        return value
    return [
        f"{author['name']} <{author['email']}>"
        if {"name", "email"} <= author.keys()
        else str(author.get("name", author.get("email", "")))
        for author in value
    ]


def _project_entry_point(project: dict[str, Any], problems: list[str]) -> Any:
    group = _table(
        _table(project, "entry-points", problems, "project.entry-points"),
        ENTRY_POINT_GROUP,
        problems,
        LABELS["entry-point"],
    )
    if len(group) > 1:
        problems.append(
            f"`{LABELS['entry-point']}` has {len(group)} entries: "
            f"{', '.join(map(ascii, sorted(group)))}. A package is one environment; keep one"
        )
    for name in group:
        problems.extend(_entry_name_problems(name, project.get("name")))
    return next(iter(group.values()), None)


def _entry_name_problems(entry_name: str, project_name: Any) -> list[str]:
    try:
        if normalize_name(entry_name) == normalize_name(str(project_name)):
            return []
    except InvalidRefError:
        pass
    return [
        f"`{LABELS['entry-point']}` names {entry_name!a}, but `project.name` is "
        f"{project_name!a}. Give both the same name"
    ]
