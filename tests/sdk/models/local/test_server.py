"""The engine's process: it answers, it says why it does not, and it never outlives its user."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from strop.errors import ModelUnavailableError
from strop.models.local import LocalServer
from tests.sdk.cli.command import STROP, strop

pytestmark = pytest.mark.xdist_group("local-model")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children_of(pid: int) -> list[int]:
    """Processes that a process started, and those that they started."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        # Ended since it was listed.
        return []
    own = [int(each) for each in text.split()]
    return own + [found for child in own for found in children_of(child)]


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 120
    while any(map(is_alive, pids)):
        assert time.monotonic() < deadline, f"still alive: {pids}"
        time.sleep(0.05)


def ask(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as reply:
        return json.load(reply)


def test_a_server_lists_its_model_under_the_name_that_it_was_given(engine: LocalServer) -> None:
    (listed,) = ask(f"{engine.base_url}/models")["data"]

    assert listed["id"] == engine.model == "smollm2"
    assert engine.is_running


def test_a_stopped_server_is_gone_at_once_and_can_be_stopped_again(weights: Path) -> None:
    before = set(children_of(os.getpid()))
    with LocalServer(weights, "smollm2", slots=1, context_tokens=128, threads=1) as server:
        pids = list(set(children_of(os.getpid())) - before)
        assert pids
        assert ask(f"{server.base_url}/models")

    assert not server.is_running
    assert not any(map(is_alive, pids))
    server.stop()


def test_an_engine_that_cannot_start_says_why(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF")

    with pytest.raises(ModelUnavailableError, match=r"ended with 1 while it loaded .*broken\.gguf"):
        LocalServer(broken, "broken")


def test_an_engine_that_loads_too_long_is_given_up(weights: Path) -> None:
    before = set(children_of(os.getpid()))

    with pytest.raises(ModelUnavailableError, match="in 0 s"):
        LocalServer(weights, "smollm2", start_s=0)

    assert set(children_of(os.getpid())) <= before


@pytest.mark.parametrize("is_loaded", [False, True])
def test_an_engine_dies_with_a_parent_that_is_killed(weights: Path, is_loaded: bool) -> None:
    script = (
        "import sys; from pathlib import Path; from strop.models.local import LocalServer\n"
        f"server = LocalServer(Path({str(weights)!r}), 'smollm2', slots=1, threads=1)\n"
        "print('up', flush=True); server.wait()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        if is_loaded:
            assert parent.stdout.readline() == b"up\n"
        while not (pids := children_of(parent.pid)):
            time.sleep(0.01)
        parent.kill()
    wait_until_gone(pids)


@contextmanager
def serving(weights: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command: list[str | Path] = [STROP, "model", "serve", weights]
    command += ["--slots", "1", "--threads", "1", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_command_that_is_interrupted_or_terminated_leaves_nothing(
    weights: Path, number: signal.Signals, code: int
) -> None:
    with serving(weights) as process:
        assert process.stderr is not None
        assert "Loading" in process.stderr.readline()
        shown = process.stderr.readline()
        pids = children_of(process.pid)
        process.send_signal(number)

        assert process.wait(120) == code
        assert "http://127.0.0.1:" in shown
        assert "Traceback" not in process.stderr.read()
    assert pids
    wait_until_gone(pids)


def test_a_command_prints_where_the_model_is_as_json_and_says_when_its_engine_dies(
    weights: Path,
) -> None:
    with serving(weights, "--json") as process:
        assert process.stdout is not None
        text = ""
        while not text.endswith("}\n"):
            text += process.stdout.readline()
        document = json.loads(text)
        assert ask(f"{document['base_url']}/models")["data"]
        assert document["engine"] == "llama.cpp"
        assert document["model"] == weights.stem

        (engine,) = children_of(process.pid)
        os.kill(engine, signal.SIGKILL)

        assert process.wait(120) == 1
        assert "ended by itself with -9" in process.stdout.read()


def test_a_port_that_is_taken_is_a_fault_that_says_so(engine: LocalServer, weights: Path) -> None:
    port = engine.base_url.removesuffix("/v1").rpartition(":")[2]

    with pytest.raises(ModelUnavailableError, match=port):
        LocalServer(weights, "smollm2", port=int(port), slots=1, threads=1)


def test_a_model_that_nobody_knows_is_refused_with_those_that_are_known() -> None:
    shown = strop("model", "serve", "gpt-9")

    assert shown.code == 1
    assert "neither a file nor one of: smollm2" in shown.stderr


def test_the_missing_extra_is_named() -> None:
    script = (
        "import sys; sys.modules['xllamacpp'] = None; from strop.cli import main\n"
        "main(['model', 'serve', 'smollm2'])"
    )
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert finished.returncode == 1
    assert "pip install 'strop[local]'" in finished.stderr
