"""The whole journey on this machine: hub, push, resolve, install, 64 rollouts, rewards."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any

from demo.folder import ROOT, demo_folder
from demo.hub import STROP, HubStartError, create_hub, serve_hub
from strop import read_trajectories

OWNER = "strop"
REFERENCE = "strop/math-env@~=0.1"
TASK_COUNT, GROUP_SIZE = 16, 4
PUSHED = ("math_env", "reverse_text_env")
"""Folders of what the journey shows; ``make demo ALL=1`` pushes the others too."""
LOCAL_MAX_TOKENS = 32
"""Of one completion of a model on this machine, which is slow and sometimes never ends."""
LOCAL_SETTINGS = ("topic=arithmetic", "level=0", "answer_form=last_number")
"""Sums of single digits, without a box: what a model of this machine's size sometimes solves."""


Journey = Callable[[Path, str, Sequence[str]], Path]


class DemoError(Exception):
    """A command of the demo failed; it has said why."""


def say(text: str) -> None:
    """One line of what is going on."""
    print(f"\n── {text}", flush=True)


def run_strop(*arguments: str | Path, strop: Path = STROP) -> None:
    """Run a command, shown as a person would type it.

    Raises:
        DemoError: It failed.
    """
    print("$ strop", *(short(argument) for argument in arguments), flush=True)
    if code := subprocess.run([strop, *arguments], stdin=subprocess.DEVNULL).returncode:
        raise DemoError(f"`strop {arguments[0]} {arguments[1]}` ended with exit code {code}")


def ask_strop(*arguments: str | Path, strop: Path = STROP) -> Any:
    """What a command answers with ``--json``.

    Raises:
        DemoError: It failed.
    """
    command = [strop, *arguments, "--json"]
    answer = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    if answer.returncode:
        raise DemoError(f"`strop {arguments[0]} {arguments[1]}` failed: {answer.stdout.strip()}")
    return json.loads(answer.stdout)


def push_environments(names: Iterable[str] = PUSHED) -> None:
    """Push environments of this repository; what is published already stays as it is.

    Args:
        names: Their folders.
    """
    for name in names:
        run_strop("env", "push", ROOT / "environments" / name, "--owner", OWNER)


def make_environment(folder: Path) -> Path:
    """A fresh virtual environment; returns its interpreter."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder / "bin" / "python"


@contextmanager
def choose_model(local_model: str | None) -> Iterator[list[str]]:
    """The arguments that name the model: one of this machine, an endpoint's, or a script.

    Without a local model the endpoint that ``STROP_MODEL_URL`` names is asked, else a scripted
    policy that is partly right.
    """
    url = os.environ.get("STROP_MODEL_URL")
    if local_model is not None:
        with serve_model(local_model) as served:
            limits = ["--max-tokens", str(LOCAL_MAX_TOKENS), "--concurrency", str(GROUP_SIZE)]
            engine = ["--engine", served["engine"], *limits]
            yield ["--base-url", served["base_url"], "--model", served["model"], *engine]
    elif url is None:
        yield ["--model", "scripted:mixed"]
    else:
        yield ["--base-url", url, "--model", os.environ.get("STROP_MODEL") or first_model(url)]


@contextmanager
def serve_model(name: str) -> Iterator[dict[str, Any]]:
    """Serve a model on this machine until the block ends; gives what the command says of it.

    Raises:
        DemoError: It could not be served; the command has said why.
    """
    say(f"Serve {name} on this machine's processor")
    command: list[str | Path] = [STROP, "model", "serve", name, "--json"]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    with server, server.stdout as output:
        try:
            lines = iter(output.readline, "")
            text = "".join([*takewhile(lambda line: line != "}\n", lines), "}"])
            served: dict[str, Any] = (
                json.loads(text) if text.startswith("{") else {"error": {"message": text}}
            )
            if "error" in served:
                raise DemoError(f"`strop model serve {name}` failed: {served['error']['message']}")
            print(f"{served['model']} is at {served['base_url']}")
            yield served
        finally:
            server.terminate()


def first_model(url: str) -> str:
    """The first model that an endpoint offers.

    Raises:
        DemoError: It offers none.
    """
    try:
        with urllib.request.build_opener().open(f"{url.rstrip('/')}/models", timeout=30) as reply:
            name: str = json.load(reply)["data"][0]["id"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DemoError(f"{url} names no model ({error}). Set STROP_MODEL to its name") from error
    return name


def show_rewards(file: Path) -> None:
    """Every reward, one line for each task."""
    groups: dict[str, list[str]] = {}
    for trajectory in read_trajectories(file):
        shown = "failed" if trajectory.reward is None else f"{trajectory.reward:g}"
        groups.setdefault(trajectory.attempt.task_key, []).append(shown)
    for key, rewards in groups.items():
        print(f"  task {key:>4}  {' '.join(rewards)}")


def main(local_model: str | None = None) -> int:
    """Run the demo; 0 when every step succeeded.

    Args:
        local_model: One that `strop model serve` knows.
    """
    settings = [word for each in LOCAL_SETTINGS for word in ("--set", each)] if local_model else []
    return show(
        local_model, lambda folder, address, model: travel(folder, address, model, settings)
    )


def show(local_model: str | None, journey: Journey) -> int:
    """Run a journey with a hub and a model that are there as long as it takes.

    Args:
        local_model: See `choose_model`.
        journey: From the demo's folder, the hub's address and the arguments that name the model
            to where the trajectories are.
    """
    # Without a handler a terminated demo would leave its hub behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started = time.monotonic()
    folder = demo_folder()
    try:
        # First, so that a model that is not there is known before anything is made.
        with choose_model(local_model) as model:
            say(f"A hub of our own in {short(folder)}")
            token = create_hub(folder)
            with serve_hub(folder, port=int(os.environ.get("STROP_PORT", "0"))) as address:
                os.environ.update(
                    STROP_HUB=address, STROP_TOKEN=token, STROP_CONFIG=str(folder / "config.toml")
                )
                out = journey(folder, address, model)
    except (DemoError, HubStartError, subprocess.CalledProcessError) as error:
        print(f"The demo stopped: {error}", file=sys.stderr)
        return 1
    say(f"Done in {time.monotonic() - started:.0f} s; the hub is stopped")
    print(f"Trajectories: {short(out)}")
    print("Catalog:      make hub, then open http://127.0.0.1:8000/")
    return 0


def travel(folder: Path, address: str, model: Sequence[str], settings: Sequence[str] = ()) -> Path:
    """From push to rewards; returns the file of the trajectories."""
    say(f"Push the environments of this repository to {address}")
    push_environments()
    say(f"Resolve {REFERENCE}")
    version = ask_strop("env", "info", REFERENCE)
    print(f"{version['owner']}/{version['name']}@{version['version']} sha256 {version['digest']}")
    say("Install it from the hub, with strop itself, into a fresh virtual environment")
    python = make_environment(folder / "venv")
    run_strop("env", "install", REFERENCE, "--python", python)
    say(f"{TASK_COUNT * GROUP_SIZE} rollouts there: {TASK_COUNT} tasks, {GROUP_SIZE} each")
    out = folder / "runs" / time.strftime("%Y%m%d-%H%M%S")
    counts = ["--tasks", str(TASK_COUNT), "--group-size", str(GROUP_SIZE)]
    command: list[str | Path] = ["eval", "run", REFERENCE, *settings, *model, *counts]
    run_strop(*command, "--out", out, strop=python.with_name("strop"))
    show_rewards(out / "trajectories.jsonl")
    return out / "trajectories.jsonl"


def short(value: str | Path) -> str:
    """A path as it is seen from the checkout; anything else as it is."""
    path = Path(value)
    is_ours = isinstance(value, Path) and path.is_relative_to(ROOT)
    return str(path.relative_to(ROOT)) if is_ours else str(value)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
