#!/usr/bin/env python3
"""Stands in for a container engine's command: notes each call, and runs programs on the host.

It keeps nothing apart. What it shows is how the backend `docker` speaks with an engine.
"""

import json
import os
import shutil
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parent


def execute(options: list[str], program: list[str], name: str) -> None:
    """Become the container's program, with a folder of the host for its box."""
    inside = next(part.split(":") for part in options if part.endswith(":/opt/strop:ro"))
    box = str(HOME / "boxes" / name)
    os.makedirs(box, exist_ok=True)
    code = program[-1].replace("/opt/strop", inside[0])
    own = f"from strop.sandbox.zygote import rootfs; rootfs.BOX = {box!r}; from strop"
    os.chdir(box)
    os.execv(sys.executable, [sys.executable, *program[1:-1], code.replace("from strop", own, 1)])


def main(arguments: list[str]) -> None:
    """Do what `docker` would be asked to."""
    with open(HOME / "calls", "a") as file:
        file.write(json.dumps(arguments) + "\n")
    word, *rest = arguments
    if word == "info":
        print(json.dumps({"Runtimes": {"runc": {}}}))
    elif word == "run":
        name, start = rest[rest.index("--name") + 1], rest.index("python3")
        (HOME / f"{name}.json").write_text(json.dumps(rest))
        execute(rest[:start], rest[start:], name)
    elif word == "exec":
        name = rest[1]
        execute(json.loads((HOME / f"{name}.json").read_text()), rest[2:], name)
    elif word == "rm":
        shutil.rmtree(HOME / "boxes" / rest[-1], ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
