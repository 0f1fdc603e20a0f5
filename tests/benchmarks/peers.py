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

PEERS = {
    "verifiers_0_3_1_cpu_ms": ("verifiers==0.3.1", "verifiers_v0.py"),
    "verifiers_0_4_0_cpu_ms": ("verifiers==0.4.0", "verifiers_v1.py"),
    "inspect_ai_cpu_ms": ("inspect-ai==0.3.285", "inspect_eval.py"),
}
"""Key of the figure to requirement and script."""


def python_with(requirement: str) -> Path:
    """An interpreter that has a peer; installed when it is first asked for."""
    folder = _FOLDER / requirement.replace("==", "-")
    python = folder / "bin" / "python"
    mark = folder / "installed"
    if not mark.exists():
        print(f"installing {requirement}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", requirement], check=True)
        mark.touch()
    return python


def measure_peers(rollout_count: int, concurrency: int) -> dict[str, float]:
    """Milliseconds of CPU a rollout by key, medians."""
    result = {}
    for key, (requirement, script) in PEERS.items():
        command = [python_with(requirement), _SCRIPTS / script]
        rounds = []
        for _ in range(ROUNDS):
            done = subprocess.run(
                [*command, str(rollout_count), str(concurrency)],
                check=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            rounds.append(json.loads(done.stdout.splitlines()[-1])["cpu_ms"])
        result[key] = round(statistics.median(rounds), 4)
    return result
