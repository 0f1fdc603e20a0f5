"""The examples of the README and the guides run as they stand, from top to bottom.

A `bash` block runs in a shell; a `python` block runs, or is written where ``file=PATH`` says; a
`console` block is for people.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT
from tests.journey.conftest import RunningHub

pytestmark = pytest.mark.xdist_group("journey")

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]
_BLOCK = re.compile(
    r"^```(?P<kind>bash|python)(?: file=(?P<file>\S+))?\n(?P<text>.*?)^```", re.M | re.S
)


def _blocks(document: Path) -> Iterator[tuple[str, str | None, str]]:
    for match in _BLOCK.finditer(document.read_text()):
        yield match["kind"], match["file"], match["text"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_the_examples_run(document: Path, operator: Path, hub: RunningHub, tmp_path: Path) -> None:
    path = f"{operator.parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, **hub.variables, "PATH": path}
    blocks = list(_blocks(document))
    assert blocks
    for kind, file, text in blocks:
        if file is not None:
            (tmp_path / file).write_text(text)
            continue
        command = ["bash", "-euo", "pipefail", "-c"] if kind == "bash" else ["python", "-c"]
        finished = subprocess.run(
            [*command, text],
            cwd=tmp_path,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert finished.returncode == 0, f"{text}\n{finished.stdout}\n{finished.stderr}"
