"""The child process that loads an author's code and probes it (step: check).

It reads a request from its arguments and writes one JSON line to the descriptor it was given.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

MOST_IMPORT_CPU_S = 2.0
"""Of processor time, beyond the SDK's own; above it the check warns."""
MOST_IMPORT_S = 5.0
"""Of time in all, which waiting takes as well; above it the check warns."""
_MESSAGE_CHARS = 1_000
_COMMAND_CHARS = 60
_PR_SET_CHILD_SUBREAPER, _PR_SET_PDEATHSIG = 36, 1
_END_S = 3.0
"""How long what is being ended may take to be gone."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)


def main(argv: list[str]) -> None:
    """Probe the environment that the request names."""
    request = json.loads(argv[0])
    reply = os.fdopen(int(argv[1]), "w", encoding="ascii")
    touched, written = _watch()
    _adopt_orphans()
    folder = Path(request["folder"])
    sys.path[:0] = [str(path) for path in (folder / "src", folder) if path.is_dir()]
    result: dict[str, Any] = {"findings": [], "measures": {}, "fingerprint": None, "error": None}
    try:
        _probe(request, result, touched, written)
    except Exception as error:  # noqa: BLE001 - the boundary of author code
        result["error"] = f"{type(error).__name__}: {error}"
    json.dump(result, reply)
    reply.write("\n")
    reply.close()
    _end_children()
    # Threads of the author's that never end must not hold the check.
    os._exit(0)


def _probe(
    request: dict[str, Any], result: dict[str, Any], touched: list[str], written: set[str]
) -> None:
    from strop.environment import Environment
    from strop.testing.probes import run_fingerprint, run_probes

    before = _belongings()
    started, cpu_started = time.monotonic(), time.process_time()
    load = _entry_point(request["entry_point"])
    measures = result["measures"]
    measures["import_cpu_s"] = time.process_time() - cpu_started
    measures["import_s"] = time.monotonic() - started
    measures["module_count"] = float(len(sys.modules))
    after_import = _belongings()
    environment = load(**request["settings"])
    if not isinstance(environment, Environment):
        raise TypeError(f"it returns {type(environment).__name__}, not an Environment")
    if request["is_repeat"]:
        result["fingerprint"] = run_fingerprint(environment)
        return
    bounds = tuple(request["reward_range"]) if request["reward_range"] else None
    findings, result["fingerprint"] = run_probes(
        environment, bounds, is_deterministic=request["is_deterministic"]
    )
    result["findings"] = [_shortened(asdict(found)) for found in findings]
    result["findings"].append(_import_finding(before, after_import))
    result["findings"].append(_import_time_finding(measures))
    result["findings"].append(_leak_finding(before))
    result["findings"].append(_network_finding(touched))
    result["findings"].append(_file_finding(written))


def _entry_point(text: str) -> Callable[..., Any]:
    module, _, name = text.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


def _belongings() -> dict[str, set[str]]:
    descriptors = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            descriptors.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
        except OSError:
            continue
    # A group of our own threads is the SDK's to end.
    threads = {t.name for t in threading.enumerate() if not t.name.startswith("strop")}
    return {
        "threads": threads,
        "child processes": _named_children(),
        "sockets": {d for d in descriptors if "socket:" in d},
        "log handlers": {repr(handler) for handler in logging.getLogger().handlers},
        "signal handlers": {f"{s.name} {signal.getsignal(s)}" for s in _SIGNALS},
        "working folder": {os.getcwd()},
        "files": {d for d in descriptors if " /" in d and " /dev/" not in d and " /proc/" not in d},
    }


def _adopt_orphans() -> None:
    """Become the parent of what children leave, to see and end it; and end with the check."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _children() -> set[int]:
    """The living children of every thread, orphans among them."""
    pids: set[int] = set()
    for listing in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            pids.update(map(int, listing.read_text().split()))
    return {pid for pid in pids if _state(pid) not in ("", "Z", "X")}


def _named_children() -> set[str]:
    return {f"{pid} {_command(pid)}" for pid in _children()}


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        words = []
    return " ".join(words).strip()[:_COMMAND_CHARS]


def _end_children() -> None:
    end = time.monotonic() + _END_S
    while (pids := _children()) and time.monotonic() < end:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _import_finding(before: dict[str, set[str]], after: dict[str, set[str]]) -> dict[str, str]:
    left = _difference(before, after)
    if left:
        message = f"Importing it starts, opens or changes {left}. Do that in `setup`, or never."
        return _finding("import", "failed", message)
    return _finding("import", "ok", "Importing it starts nothing")


def _import_time_finding(measures: dict[str, float]) -> dict[str, str]:
    cpu_s, whole_s = measures["import_cpu_s"], measures["import_s"]
    told = f"Importing it takes {cpu_s:.2f} s of processor time, {whole_s:.2f} s in all"
    if cpu_s > MOST_IMPORT_CPU_S or whole_s > MOST_IMPORT_S:
        return _finding(
            "import_time",
            "warning",
            f"{told}, more than {MOST_IMPORT_CPU_S:g} s or {MOST_IMPORT_S:g} s. Import what is "
            "heavy where it is used, and read data in a task set's function.",
        )
    return _finding("import_time", "ok", told)


def _leak_finding(before: dict[str, set[str]]) -> dict[str, str]:
    end = time.monotonic() + _END_S
    # A process that was told to end may take a moment.
    while _named_children() - before["child processes"] and time.monotonic() < end:
        time.sleep(0.05)
    left = _difference(before, _belongings())
    if left:
        return _finding("left_behind", "failed", f"Left behind: {left}. Free it in `close`.")
    return _finding("left_behind", "ok", "No thread, process, socket or file is left behind")


def _difference(before: dict[str, set[str]], after: dict[str, set[str]]) -> str:
    new = {kind: sorted(after[kind] - before[kind]) for kind in before}
    return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in new.items() if names)


def _network_finding(touched: list[str]) -> dict[str, str]:
    if touched:
        message = (
            f"It reached for {', '.join(sorted(set(touched))[:5])} with its default settings. "
            "Work without a network by default, and download only when a setting asks for it."
        )
        return _finding("network", "failed", message)
    return _finding("network", "ok", "Its Python reached for no other machine")


def _finding(check: str, verdict: str, message: str) -> dict[str, str]:
    return {"check": check, "verdict": verdict, "message": message[:_MESSAGE_CHARS]}


def _shortened(finding: dict[str, Any]) -> dict[str, Any]:
    return {**finding, "message": finding["message"][:_MESSAGE_CHARS]}


def _file_finding(written: set[str]) -> dict[str, str]:
    # An unnamed temporary file is an open of its folder.
    left = sorted(path for path in written if os.path.isfile(path) and not _is_device(path))
    left += sorted(str(path) for path in Path(tempfile.gettempdir()).iterdir())
    if left:
        message = f"It leaves files behind: {', '.join(left[:5])}. Remove them in `close`."
        return _finding("files", "failed", message)
    return _finding("files", "ok", "Its Python leaves no file behind")


def _is_device(path: str) -> bool:
    return path.startswith(("/dev/", "/proc/"))


def _watch() -> tuple[list[str], set[str]]:
    """Hosts that are reached for and files that are opened for writing, from now on."""
    touched: list[str] = []
    written: set[str] = set()

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.getaddrinfo" and arguments[0] not in _OWN_NAMES:
            touched.append(str(arguments[0]))
        elif event == "socket.connect" and isinstance(arguments[1], tuple):
            host = str(arguments[1][0])
            if host not in _OWN_NAMES and not host.startswith("127."):
                touched.append(host)
        elif event == "open" and isinstance(arguments[0], str):
            flags = arguments[2] if isinstance(arguments[2], int) else 0
            if flags & (os.O_WRONLY | os.O_RDWR):
                written.add(os.path.abspath(arguments[0]))

    sys.addaudithook(watch)
    return touched, written


_OWN_NAMES = (None, "", "localhost", "::1", b"localhost", "127.0.0.1")

if __name__ == "__main__":
    main(sys.argv[1:])
