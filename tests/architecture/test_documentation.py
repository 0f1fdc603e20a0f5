"""The reference names every command, setting, error code and field; links lead to files."""

import dataclasses
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

import strop_hub
from strop import errors as sdk_errors
from strop.cli.app import app
from strop.hub.manifest import Manifest
from strop_hub import errors as hub_errors
from strop_hub.http import problems
from strop_hub.registry.choice import Cause
from strop_hub.settings import PREFIX, Settings
from tests.architecture.tree import ROOT, list_files

REFERENCE = ROOT / "docs" / "reference"
_LINK = re.compile(r"\[[^\]]*\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")
_VARIABLE = re.compile(r"\bSTROP_[A-Z][A-Z_]*[A-Z]\b")


def _reference(name: str) -> str:
    return (REFERENCE / name).read_text()


def _subclasses(base: Any) -> Iterator[Any]:
    yield base
    for child in base.__subclasses__():
        yield from _subclasses(child)


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    for name in command.list_commands(None):
        child = command.get_command(None, name)
        if not child.hidden:
            yield from _commands(child, f"{path} {name}")


COMMANDS = dict(_commands(typer.main.get_command(app), "strop"))


def _variables() -> set[str]:
    texts = [
        (ROOT / path).read_text()
        for path in list_files()
        if path.suffix == ".py" and path.parts[0] in ("sdk", "hub_server", "demo")
    ]
    found = {name for text in texts for name in _VARIABLE.findall(text)}
    return found | {PREFIX + field.name.upper() for field in dataclasses.fields(Settings)}


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_is_in_the_reference(path: str) -> None:
    assert f"`{path}" in _reference("cli.md")


@pytest.mark.parametrize("path", COMMANDS)
def test_every_option_of_a_command_is_in_the_reference(path: str) -> None:
    _, _, section = _reference("cli.md").partition(f"`{path}")
    section = re.split(r"\n#+ `strop ", section)[0]
    options = [each for each in COMMANDS[path].params if each.param_type_name == "option"]
    names = {max(option.opts, key=len) for option in options if not option.hidden}
    missing = {name for name in names - {"--help"} if f"`{name}" not in section}
    assert not missing


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_explains_itself(path: str) -> None:
    assert COMMANDS[path].help


@pytest.mark.parametrize("variable", sorted(_variables()))
def test_every_variable_is_in_the_reference(variable: str) -> None:
    assert f"`{variable}`" in _reference("config.md")


def _listed_codes(title: str) -> list[str]:
    """The codes of one table of the page about errors."""
    _, _, section = _reference("errors.md").partition(f"## {title}\n")
    return re.findall(r"^\| `([a-z_]+)` \|", section.partition("\n## ")[0], re.MULTILINE)


def test_every_code_of_the_hub_is_in_the_reference_and_no_other() -> None:
    # Some errors live where they are raised: all are known once the whole hub is imported.
    for module in pkgutil.walk_packages(strop_hub.__path__, "strop_hub."):
        importlib.import_module(module.name)
    classes = {error.code for error in _subclasses(hub_errors.HubError)}
    codes = classes | set(problems.CODES.values()) | {problems.OTHER_CODE}

    assert sorted(_listed_codes("Codes of the hub")) == sorted(codes)


def test_every_code_of_a_reference_is_in_the_reference_and_no_other() -> None:
    assert sorted(_listed_codes("Codes of single references")) == sorted(Cause)


@pytest.mark.parametrize("name", sorted({e.__name__ for e in _subclasses(sdk_errors.StropError)}))
def test_every_error_of_the_sdk_is_in_the_reference(name: str) -> None:
    assert f"`{name}`" in _reference("errors.md")


@pytest.mark.parametrize("field", [str(field.alias) for field in Manifest.model_fields.values()])
def test_every_field_of_the_manifest_is_in_the_reference(field: str) -> None:
    assert f"| `{field}` |" in _reference("manifest.md")


@pytest.mark.parametrize("path", [p for p in list_files() if p.suffix == ".md"], ids=str)
def test_every_relative_link_leads_to_a_file(path: Path) -> None:
    if "template" in path.parts:
        return
    targets = _LINK.findall((ROOT / path).read_text())
    assert not [target for target in targets if not (ROOT / path.parent / target).exists()]


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text()
    pages = {path.name for path in folder.glob("*.md")} - {"README.md"}
    assert not {page for page in pages if f"({page})" not in index}
