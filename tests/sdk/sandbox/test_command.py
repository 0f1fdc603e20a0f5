"""`strop sandbox` prints what the functions behind it give."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sdk.sandbox.conftest import TIERS, open_tier

CODE = "import sys; from strop.cli.sandbox import app; app(sys.argv[1:])"


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CODE, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ},
        check=False,
    )


async def test_the_doctor_names_the_chosen_backend_and_what_holds() -> None:
    await (await open_tier(TIERS[0])).close()
    outcome = _run("doctor")

    assert outcome.returncode == 0, outcome.stderr
    assert f"{TIERS[0].name}: works  <- chosen" in outcome.stdout
    assert "  holds       memory_bytes: " in outcome.stdout
    assert "  not held    shared kernel: " in outcome.stdout


async def test_the_doctors_json_has_the_same_facts() -> None:
    await (await open_tier(TIERS[0])).close()
    report = json.loads(_run("doctor", "--json").stdout)

    assert report["chosen"] == TIERS[0].name
    assert report["backends"][0]["isolation"] == "NAMESPACE"


def test_no_usable_backend_is_exit_code_1(tmp_path: Path) -> None:
    outcome = _run("doctor", "--python", str(tmp_path / "python"))

    assert outcome.returncode == 1
    assert "Remedy: " in outcome.stdout
    assert "chosen" not in outcome.stdout


@pytest.mark.parametrize("token", ["", "short"])
def test_a_token_that_can_be_guessed_is_refused(tmp_path: Path, token: str) -> None:
    path = tmp_path / "token"
    path.write_text(token)
    outcome = _run("serve", "--token-file", str(path))

    assert outcome.returncode == 2
    assert "fewer than 20 characters" in outcome.stderr.replace("\n", " ")
