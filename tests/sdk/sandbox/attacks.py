"""Programs that attack a sandbox, each bounded, so that a hole does no harm to who tests."""

from collections.abc import Callable
from dataclasses import dataclass

from strop.sandbox import ExecResult

Verdict = Callable[[ExecResult], bool]

TRY = """
def attempt(action):
    try:
        print("DONE", action())
    except BaseException as error:
        print("REFUSED", type(error).__name__, getattr(error, "errno", None))
"""


@dataclass(frozen=True)
class Attack:
    """A program, and what its result looks like where it was stopped."""

    name: str
    code: str
    is_stopped: Verdict
    wall_s: float = 30.0


def refused(result: ExecResult) -> bool:
    return "REFUSED" in result.text and "DONE" not in result.text


def ended_by(limit: str) -> Verdict:
    return lambda result: result.limit == limit and result.wall_s < 30.0


def number_at_most(most: int) -> Verdict:
    return lambda result: int((result.text.split() or ["-1"])[-1]) in range(most + 1)


def _reading(path: str) -> str:
    return f"{TRY}attempt(lambda: open({path!r}, 'rb').read(64))"


ATTACKS = [
    Attack("infinite loop", "while True: pass", ended_by("wall_s"), wall_s=1.0),
    Attack("endless sleep", "import time; time.sleep(60)", ended_by("wall_s"), wall_s=1.0),
    Attack(
        "memory bomb of one process",
        "kept = []\nfor _ in range(2000): kept.append(bytearray(1 << 20))",
        lambda r: r.status == "oom" and r.limit == "memory_bytes",
    ),
    Attack(
        "memory bomb of many processes",
        """
import os, time
for _ in range(6):
    if os.fork() == 0:
        kept = b"x" * (120 << 20)
        time.sleep(600)
        os._exit(0)
time.sleep(600)
""",
        lambda r: r.status == "oom",
        wall_s=60.0,
    ),
    Attack(
        "fork bomb",
        """
import os, time
count = 0
try:
    for _ in range(500):
        if os.fork() == 0:
            time.sleep(2)
            os._exit(0)
        count += 1
except OSError:
    pass
print(count, flush=True)
os._exit(0)
""",
        # Where the user is shared, the whole run is ended; elsewhere only its forks fail.
        lambda r: r.limit == "pid_count" or number_at_most(32)(r),
    ),
    Attack(
        "fork bomb that doubles",
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        lambda r: r.limit in ("pid_count", "memory_bytes", "cpu_s", "wall_s"),
        wall_s=1.0,
    ),
    Attack(
        "infinite stdout",
        "import os\nwhile True: os.write(1, b'x' * 65536)",
        lambda r: r.status == "output_limit" and len(r.stdout) == 64 * 1024,
    ),
    Attack(
        "infinite stderr",
        "import os\nwhile True: os.write(2, b'x' * 65536)",
        lambda r: r.status == "output_limit" and len(r.stderr) == 64 * 1024,
    ),
    Attack(
        "daemon by double fork",
        """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 3)
        time.sleep(60)
    os._exit(0)
os.wait()
print("parent", 0)
""",
        lambda r: r.status == "ok" and r.wall_s < 30.0,
        wall_s=60.0,
    ),
    Attack(
        "child that holds stdout",
        """
import os, time
if os.fork() == 0:
    time.sleep(60)
print("parent", 0, flush=True)
os._exit(0)
""",
        lambda r: r.status == "ok" and r.wall_s < 30.0,
        wall_s=60.0,
    ),
    Attack("reading shadow", _reading("/etc/shadow"), refused),
    Attack(
        "listing the host's temporary files",
        "import os, sys\nprint([n for n in os.listdir('/tmp') if n in sys.argv[1:]])",
        lambda r: "canary" not in r.text,
    ),
    Attack(
        "reading the home of root",
        f"{TRY}import os, glob\nattempt(lambda: open('/root/.bashrc').read(9))\n"
        "attempt(lambda: open('/root/.profile').read(9))",
        refused,
    ),
    Attack(
        "looking at the host's processes",
        "import os, sys\ntry: print([n for n in os.listdir('/proc') if n in sys.argv[1:]])\n"
        "except OSError: print('[]')",
        lambda r: r.text.strip() == "[]",
    ),
    Attack(
        "reading the host's variables",
        """
import glob
for path in ["/proc/1/environ", *glob.glob("/proc/[0-9]*/environ"), "/proc/self/environ"]:
    try: print(open(path).read())
    except OSError: pass
""",
        lambda r: r.status == "ok" and "CANARY" not in r.text,
    ),
    Attack(
        "TCP",
        f"{TRY}import socket\nattempt(lambda: socket.create_connection(('127.0.0.1', 80), 1))\n"
        "attempt(lambda: socket.socket().bind(('127.0.0.1', 0)))",
        refused,
    ),
    Attack(
        "UDP",
        f"{TRY}import socket\n"
        "attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)"
        ".sendto(b'x', ('127.0.0.1', 53)))",
        refused,
    ),
    Attack(
        "abstract socket of the host",
        f"{TRY}import socket, sys\n"
        "attempt(lambda: socket.socket(socket.AF_UNIX).connect('\\0' + sys.argv[1]))",
        refused,
    ),
    Attack(
        "writing system files",
        f"{TRY}attempt(lambda: open('/usr/bin/strop-canary', 'w'))\n"
        "attempt(lambda: open('/etc/passwd', 'a'))\nattempt(lambda: open('/strop-canary', 'w'))",
        refused,
    ),
    Attack(
        "writing a folder of the host",
        f"{TRY}import sys\nattempt(lambda: open(sys.argv[1] + '/canary', 'w'))",
        refused,
    ),
    Attack(
        "killing the parent",
        # Where the parent is out of sight, the first process stands in for it.
        f"{TRY}import os\nparent = os.getppid() or 1\nattempt(lambda: os.kill(parent, 9))",
        lambda r: r.status == "ok",
    ),
    Attack(
        "killing the first process",
        "import os, time\ntry: os.kill(1, 9)\nexcept OSError: pass\n"
        "time.sleep(0.1)\nprint('alive', 0)",
        lambda r: r.text == "alive 0\n",
    ),
    Attack(
        "a child beside its parent",
        """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
pid = libc.syscall(56, 0x8000 | 17, 0, 0, 0, 0)
if pid == 0:
    libc._exit(0)
print("DONE" if pid > 0 else "REFUSED")
""",
        refused,
    ),
    Attack(
        "the memory of the first process",
        f"{TRY}attempt(lambda: open('/proc/1/environ', 'rb').read(1) or 1 / 0)\n"
        "for name in ('maps', 'mem', 'fd/0', 'map_files', 'auxv'):\n"
        "    attempt(lambda: open(f'/proc/1/{name}', 'r+b' if name == 'mem' else 'rb').read(1))\n"
        "for name in ('oom_score_adj', 'coredump_filter', 'clear_refs', 'comm'):\n"
        "    attempt(lambda: open(f'/proc/1/{name}', 'wb', 0).write(b'1'))",
        refused,
    ),
    Attack(
        "killing another process of the user",
        f"{TRY}import os, sys\nattempt(lambda: os.kill(int(sys.argv[1]), 9))",
        refused,
    ),
    Attack(
        "limits and priorities of other processes",
        f"{TRY}import ctypes, os, resource, sys\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "def call(*arguments):\n"
        "    if libc.syscall(*arguments) < 0: raise OSError(ctypes.get_errno(), '')\n"
        "for pid in {1, os.getppid() or 1, *map(int, sys.argv[1:])}:\n"
        "    for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU):\n"
        "        attempt(lambda: resource.prlimit(pid, kind, (0, 0)))\n"
        "    attempt(lambda: os.sched_setaffinity(pid, {0}))\n"
        "    attempt(lambda: os.sched_setparam(pid, os.sched_param(0)))\n"
        "    attempt(lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)))\n"
        "    attempt(lambda: call(314, pid, bytes([48]) + bytes(47), 0))\n"
        "    attempt(lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))\n"
        "    attempt(lambda: call(251, 1, pid, 3 << 13))\n"
        "attempt(lambda: os.setpriority(os.PRIO_PGRP, 0, 19))\n"
        "attempt(lambda: os.setpriority(os.PRIO_USER, 0, 19))\n"
        "attempt(lambda: call(251, 3, 0, 3 << 13))",
        lambda r: r.status == "ok" and refused(r),
    ),
    Attack(
        "tracing the parent",
        """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for request in (16, 0x4206):
    result = libc.ptrace(request, os.getppid(), 0, 0)
    print("DONE" if result == 0 else "REFUSED")
""",
        refused,
    ),
    Attack(
        "a user namespace of its own",
        """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print("DONE" if libc.unshare(0x10000000) == 0 else "REFUSED")
print("DONE" if libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0) > 0 else "REFUSED")
""",
        refused,
    ),
    Attack(
        "filling the disk with one file",
        """
size = 0
try:
    with open("big", "wb", buffering=0) as file:
        for _ in range(64):
            size += file.write(b"x" * (1 << 20))
except OSError:
    pass
print(size >> 20)
""",
        number_at_most(8),
    ),
    Attack(
        "filling the disk with many files",
        """
size = 0
try:
    for index in range(16):
        with open(f"big{index}", "wb", buffering=0) as file:
            for _ in range(4):
                size += file.write(b"x" * (1 << 20))
except OSError:
    pass
print(size >> 20)
""",
        number_at_most(16),
    ),
    Attack(
        "using up inodes",
        """
count = 0
try:
    for index in range(5000):
        open(f"f{index}", "w").close()
        count += 1
except OSError:
    pass
print(count)
""",
        number_at_most(2000),
    ),
    Attack(
        "opening very many files",
        """
kept = []
try:
    for _ in range(100_000):
        kept.append(open("/dev/null"))
except OSError:
    pass
print(len(kept))
""",
        number_at_most(256),
    ),
    Attack(
        "a link in place of a result",
        "import os\nos.symlink('/etc/passwd', 'result')",
        lambda r: isinstance(r.files["result"], OSError),
    ),
    Attack(
        "a way out in place of a result",
        "import os\nos.symlink('/', 'out')",
        lambda r: all(isinstance(content, OSError) for content in r.files.values()),
    ),
    Attack(
        "a pipe in place of a result",
        "import os\nos.mkfifo('result')",
        lambda r: isinstance(r.files["result"], OSError) and r.wall_s < 30.0,
    ),
    Attack(
        "segmentation fault",
        "import ctypes; ctypes.string_at(0)",
        lambda r: r.status == "signal" and r.signal == 11,
    ),
    Attack(
        "killing itself",
        "import os; os.kill(os.getpid(), 9)",
        lambda r: r.status == "signal" and r.signal == 9,
    ),
]

ONLY_NAMESPACES_STOP = {"filling the disk with many files", "using up inodes"}
"""What the tier without namespaces says that it does not enforce."""
