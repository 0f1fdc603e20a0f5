"""Holes that a first design had: each stays closed."""

import asyncio
import errno
import socket
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from strop.sandbox import Backend, SandboxSpec
from tests.sdk.sandbox.conftest import MIB, NAMESPACED, TIGHT, Tier, open_tier

LISTEN = """
import socket, time
try:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\\0strop-meeting")
        listener.listen()
        listener.settimeout(1.0)
        listener.accept()
    print("MET")
except OSError as error:
    print("alone", error.errno)
"""
CONNECT = """
import socket, time
for _ in range(20):
    try:
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect("\\0strop-meeting")
        print("MET")
        break
    except OSError:
        time.sleep(0.05)
else:
    print("alone")
"""
DATAGRAMS = """
import ctypes, socket, sys, time
libc = ctypes.CDLL(None)

def turned():
    end, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_{type})
    other.close()
    libc.connect(end.fileno(), bytes(16), 16)
    end.settimeout(1.0)
    return end

try:
    if sys.argv[1] == "receive":
        with turned() as end:
            end.bind("\\0strop-datagrams")
            print("MET" if end.recv(64) else "alone")
    else:
        with turned() as end:
            for _ in range(20):
                try:
                    end.sendto(b"hello", sys.argv[1].replace("@", "\\0"))
                    print("MET")
                    break
                except ConnectionRefusedError:
                    time.sleep(0.05)
except OSError as error:
    print("alone", error.errno)
"""
PAIRS = """
import asyncio, socket
one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
one.send(b"packet")
print(other.recv(64))

async def main():
    child = await asyncio.create_subprocess_exec("/bin/echo", "hi", stdout=-1)
    print(await child.communicate())

asyncio.run(main())
"""
SHARED_MEMORY = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
found = libc.shmget(4711, 4096, 0o1666 if {create} else 0o666)
print("MET" if found >= 0 else "alone")
"""


async def test_runs_at_the_same_time_do_not_meet_in_abstract_sockets(backend: Backend) -> None:
    results = await asyncio.gather(backend.run(LISTEN), backend.run(CONNECT))

    assert ["MET" in result.text for result in results] == [False, False]


@pytest.mark.parametrize("type_name", ["DGRAM", "RAW", "SEQPACKET"])
async def test_runs_at_the_same_time_do_not_meet_through_pairs_of_sockets(
    backend: Backend, type_name: str
) -> None:
    code = DATAGRAMS.format(type=type_name)
    pair = [backend.run(code, argv=[word]) for word in ("receive", "@strop-datagrams")]

    assert ["MET" in result.text for result in await asyncio.gather(*pair)] == [False, False]


async def test_a_datagram_socket_of_the_host_is_out_of_reach(backend: Backend) -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, 2) as log:
        log.bind(f"{folder}/log")
        log.setblocking(False)
        Path(folder).chmod(0o755)
        Path(folder, "log").chmod(0o777)
        result = await backend.run(DATAGRAMS.format(type="DGRAM"), argv=[f"{folder}/log"])

        assert result.text == f"alone {errno.EPERM}\n"
        with pytest.raises(BlockingIOError):
            log.recv(64)


async def test_pairs_of_sockets_that_stay_pairs_work(backend: Backend) -> None:
    result = await backend.run(PAIRS)

    assert result.text == "b'packet'\n(b'hi\\n', None)\n", result.error_text


@pytest.mark.parametrize("tier", NAMESPACED, ids=str)
async def test_sandboxes_with_loopbacks_of_their_own_do_not_meet_either(tier: Tier) -> None:
    async with await open_tier(tier) as backend:
        spec = SandboxSpec(limits=TIGHT, network="loopback")
        async with await backend.create(spec) as one, await backend.create(spec) as other:
            results = await asyncio.gather(one.run(LISTEN), other.run(CONNECT))
            itself = await asyncio.gather(one.run(LISTEN), one.run(CONNECT))

    assert ["MET" in result.text for result in results] == [False, False]
    assert ["MET" in result.text for result in itself] == [True, True]


async def test_code_may_limit_and_slow_itself(backend: Backend) -> None:
    code = """
import os, resource, subprocess
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.prlimit(0, resource.RLIMIT_NOFILE, (20, 20))
os.sched_setaffinity(0, os.sched_getaffinity(os.getpid()))
os.nice(1)
os.setpriority(os.PRIO_PROCESS, 0, 19)
shell = "ulimit -n 15; nice -n 1 echo $(ulimit -n)"
print(subprocess.run(["/bin/sh", "-c", shell], capture_output=True, text=True).stdout)
"""
    result = await backend.run(code)

    assert (result.status, result.text) == ("ok", "15\n\n"), result.error_text


async def test_limits_of_a_supervisor_are_out_of_reach(backend: Backend) -> None:
    code = """
import os, resource, time
for pid in {os.getppid() or 1, 1}:
    for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU):
        try:
            resource.prlimit(pid, kind, (0, 0))
        except OSError as error:
            print(error.errno)
time.sleep(0.2)
"""
    results = [await backend.run(code), await backend.run(code, collect=["x"])]
    results += await backend.run_many(code, [b"1", b"2"])
    async with await backend.create(SandboxSpec(limits=TIGHT)) as sandbox:
        results.append(await sandbox.run(code))

    assert {result.status for result in results} == {"ok"}


async def test_shared_memory_of_system_v_is_refused(backend: Backend) -> None:
    results = [await backend.run(SHARED_MEMORY.format(create=create)) for create in (True, False)]

    assert [result.text for result in results] == ["alone\n", "alone\n"]


async def test_a_run_finds_nothing_of_an_earlier_one_in_its_memory(backend: Backend) -> None:
    # Written in two halves, so that the search does not find itself.
    earlier = "print(len(input()))"
    for _ in range(4):
        await backend.run(earlier, stdin=b"needle-" + b"in-the-heap" * 40)
    search = """
word = b"needle-" + b"in-the-" + b"heap"
count = 0
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
    for line in maps:
        span, rights = line.split()[:2]
        if rights.startswith("rw"):
            start, end = (int(text, 16) for text in span.split("-"))
            try:
                memory.seek(start)
                count += memory.read(end - start).count(word)
            except (OSError, OverflowError):
                pass
print(count)
"""
    result = await backend.run(search)

    # The word itself is put together while the search runs.
    assert result.status == "ok", result.error_text
    assert int(result.text) <= 2


async def test_memory_behind_descriptors_is_refused(backend: Backend) -> None:
    result = await backend.run("import os\nos.memfd_create('hoard')")

    assert result.status == "nonzero"
    assert "PermissionError" in result.error_text


async def test_memory_that_is_shared_between_processes_counts(backend: Backend) -> None:
    hoard = """
import mmap, os, time
for _ in range(6):
    if os.fork() == 0:
        block = mmap.mmap(-1, 120 << 20)
        for start in range(0, len(block), 4096):
            block[start] = 1
        time.sleep(600)
        os._exit(0)
time.sleep(600)
"""
    result = await backend.run(hoard, limits=replace(TIGHT, wall_s=60.0, cpu_s=60.0))

    assert (result.status, result.limit) == ("oom", "memory_bytes")


async def test_memory_that_forks_share_is_counted_once(backend: Backend) -> None:
    frugal = """
import os, time
block = b"x" * (100 << 20)
for _ in range(8):
    if os.fork() == 0:
        time.sleep(0.5)
        os._exit(0)
for _ in range(8):
    os.wait()
print(len(block) >> 20)
"""
    result = await backend.run(frugal, limits=replace(TIGHT, wall_s=60.0))

    assert (result.status, result.text) == ("ok", "100\n")


async def test_cpu_time_is_that_of_all_processes(backend: Backend) -> None:
    busy = """
import os
for _ in range(3):
    os.fork()
while True: pass
"""
    result = await backend.run(busy, limits=replace(TIGHT, cpu_s=1.0, wall_s=60.0))

    assert (result.status, result.limit) == ("timeout", "cpu_s")


UNWAITED = """
import os, signal, time

def burn():
    while time.process_time() < 0.2:
        pass
    os._exit(0)

for _ in range(400):
    end, held = os.pipe()
    if os.fork() == 0:
        os.close(end)
        {burn}
    os.close(held)
    os.read(end, 1)
    os.close(end)
"""


@pytest.mark.parametrize(
    "burn",
    [
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n        os.fork() or burn()\n"
        "        try: os.wait()\n        except ChildProcessError: os._exit(0)",
        "os.fork() or burn()\n        os._exit(0)",
        "burn()",
    ],
    ids=["ignored", "orphaned", "dead"],
)
async def test_cpu_time_of_children_that_nobody_waits_for_counts(
    backend: Backend, burn: str
) -> None:
    limits = replace(TIGHT, cpu_s=0.5, wall_s=120.0, pid_count=500)
    result = await backend.run(UNWAITED.format(burn=burn), limits=limits)

    assert (result.status, result.limit) == ("timeout", "cpu_s"), result


async def test_exiting_with_our_own_codes_is_no_fault_of_the_sandbox(backend: Backend) -> None:
    for code in (125, 126, 127):
        result = await backend.run(f"import os; os._exit({code})")
        assert (result.status, result.exit_code) == ("nonzero", code)


async def test_code_cannot_reach_the_descriptors_of_its_supervisor(backend: Backend) -> None:
    result = await backend.run("import os\nprint(sorted(os.listdir('/proc/self/fd')))")
    tried = await backend.run(
        "import os\n"
        "for fd in range(3, 256):\n"
        "    try: os.fstat(fd)\n"
        "    except OSError: continue\n"
        "    print('OPEN', fd)"
    )

    assert result.status == "ok"
    assert tried.text == ""


async def test_disk_and_memory_of_one_sandbox_do_not_grow_with_its_runs(backend: Backend) -> None:
    if "disk_bytes" in backend.capabilities.not_enforced:
        pytest.skip("this tier says that it does not bound the disk")
    async with await backend.create(SandboxSpec(limits=TIGHT)) as sandbox:
        fill = "open({name!r}, 'wb').write(b'x' * (7 << 20))"
        results = [await sandbox.run(fill.format(name=f"f{index}")) for index in range(4)]

    assert [result.status for result in results[:2]] == ["ok", "ok"]
    assert results[3].status == "disk_full"
    assert results[3].limit == "disk_bytes"
    assert TIGHT.disk_bytes == MIB * 16
