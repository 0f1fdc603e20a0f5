"""The same work through other frameworks, each in a virtual environment of its own."""

import json
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SCRIPTS = Path(__file__).with_name("peer_scripts")
_FOLDER = ROOT / ".strop" / "peers"
ROUNDS = 3
_LIMIT_S = 600

_V0, _V1, _INSPECT = "verifiers==0.3.1", "verifiers==0.4.0", "inspect-ai==0.3.285"

Peers = dict[str, tuple[str, str]]
"""Key of the figure to requirement and script."""

ROLLOUT: Peers = {
    "verifiers_0_3_1_cpu_ms": (_V0, "verifiers_v0.py"),
    "verifiers_0_4_0_cpu_ms": (_V1, "verifiers_v1.py"),
    "inspect_ai_cpu_ms": (_INSPECT, "inspect_eval.py"),
}
CLIENT: Peers = {
    "verifiers_0_3_1_cpu_ms_256": (_V0, "verifiers_v0_client.py"),
    "verifiers_0_4_0_cpu_ms_256": (_V1, "verifiers_v1_client.py"),
    "inspect_ai_cpu_ms_256": (_INSPECT, "inspect_client.py"),
}
INTERCEPTION: Peers = {
    "verifiers_0_4_0_cpu_ms": (_V1, "verifiers_v1_interception.py"),
}
WITHOUT_INTERCEPTION = {
    _V0: "its interception is a preview of 0.4.0's, in a process whose CPU is not seen",
    _INSPECT: "it bridges a client in its own process, or a program in a container with a proxy",
}
"""Peers that cannot be driven as the others are, and why."""

_EXTRAS = {_INSPECT: ("openai",)}
"""What a peer's users install beside it."""


def python_with(requirement: str) -> Path:
    """An interpreter that has a peer; installed when it is first asked for."""
    folder = _FOLDER / requirement.replace("==", "-")
    python = folder / "bin" / "python"
    mark = folder / "installed"
    if not mark.exists():
        print(f"installing {requirement}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        wanted: list[str] = [requirement, *_EXTRAS.get(requirement, ())]
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *wanted], check=True)
        mark.touch()
    return python


def measure_peers(peers: Peers, *arguments: str) -> dict[str, float]:
    """Milliseconds of CPU by key, medians; prints each, and by name what cannot be driven."""
    print(f"the same through peers, ms CPU each, median of {ROUNDS}:", flush=True)
    result = {}
    for key, (requirement, script) in peers.items():
        rounds = []
        for _ in range(ROUNDS):
            if (told := ask(requirement, script, *arguments)) is None:
                break
            rounds.append(told["cpu_ms"])
        else:
            result[key] = round(statistics.median(rounds), 4)
            print(f"  {key:28} {result[key]:8.4f}", flush=True)
    return result


def ask(requirement: str, script: str, *arguments: str) -> dict[str, float] | None:
    """What a script says at its end; None, with the cause printed, where it cannot be driven."""
    command = [str(python_with(requirement)), str(_SCRIPTS / script), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_LIMIT_S)
    except subprocess.SubprocessError as error:
        said = getattr(error, "stderr", None) or str(error)
        print(f"  {requirement} cannot be driven: {said.strip().splitlines()[-1]}", flush=True)
        return None
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told
