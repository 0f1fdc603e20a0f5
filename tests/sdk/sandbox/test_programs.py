"""Odd programs end with exactly the status, code, signal and limit that they earned."""

from dataclasses import replace
from typing import Any

import pytest

from strop.sandbox import Backend, ExecResult, Limits
from tests.sdk.sandbox.conftest import TIGHT

pytestmark = pytest.mark.asyncio(loop_scope="module")

KIBIBYTE = 1024
Ending = tuple[str, int | None, int | None, str | None]
OK: Ending = ("ok", 0, None, None)


def ending(result: ExecResult) -> Ending:
    return (result.status, result.exit_code, result.signal, result.limit)


def exited(code: int) -> Ending:
    return ("nonzero", code, None, None)


def killed(number: int) -> Ending:
    return ("signal", None, number, None)


PYTHON: list[tuple[str, Ending, bytes]] = [
    ("", OK, b""),
    ("# only a comment", OK, b""),
    ("\n\n\n", OK, b""),
    ("print('é', '\\u2028', '\\x00')", OK, "é \u2028 \0\n".encode()),
    ("print('no newline', end='')", OK, b"no newline"),
    ("import sys; sys.stdout.write('buffered')", OK, b"buffered"),
    ("import sys; sys.stdout.write('lost'); sys.stdout.flush(); sys.exit(0)", OK, b"lost"),
    ("import os; os.write(1, b'\\xff\\xfe')", OK, b"\xff\xfe"),
    ("raise SystemExit(None)", OK, b""),
    ("raise SystemExit(False)", OK, b""),
    ("raise SystemExit(True)", exited(1), b""),
    ("raise SystemExit(255)", exited(255), b""),
    ("raise SystemExit(256)", OK, b""),
    ("raise SystemExit(-1)", exited(255), b""),
    ("raise SystemExit([])", exited(1), b""),
    ("raise SystemExit('')", exited(1), b""),
    ("quit(4)", exited(4), b""),
    ("exit()", OK, b""),
    ("print(callable(help))", OK, b"True\n"),
    ("import sys; sys.excepthook = None; 1 / 0", exited(1), b""),
    ("import sys; sys.stderr = None; 1 / 0", exited(1), b""),
    ("import traceback; traceback.print_exception = None; 1 / 0", exited(1), b""),
    ("raise KeyboardInterrupt", exited(1), b""),
    ("raise BaseException", exited(1), b""),
    ("raise GeneratorExit", exited(1), b""),
    ("raise ExceptionGroup('g', [ValueError()])", exited(1), b""),
    ("assert False, 'no'", exited(1), b""),
    ("def f(): f()\nf()", exited(1), b""),
    ("import no_such_module", exited(1), b""),
    ("x = 1\n  y = 2", exited(1), b""),
    ("\tif 1:\n        pass", exited(1), b""),
    ("del print; print(1)", exited(1), b""),
    ("import builtins; del builtins.print; print(1)", exited(1), b""),
    ("import os; os._exit(0)", OK, b""),
    ("import os; os._exit(300)", exited(44), b""),
    ("import os; os.abort()", killed(6), b""),
    ("import os; os.kill(os.getpid(), 15)", killed(15), b""),
    ("import os; os.kill(os.getpid(), 9)", killed(9), b""),
    ("import ctypes; ctypes.string_at(0)", killed(11), b""),
    ("import signal; signal.raise_signal(signal.SIGUSR1)", killed(10), b""),
    ("import signal; signal.signal(15, lambda *_: print('caught'))\nsignal.raise_signal(15)",
     OK, b"caught\n"),
    ("import atexit, os; atexit.register(os._exit, 5)", exited(5), b""),
    ("import atexit; atexit.register(lambda: 1 / 0)", OK, b""),
    ("import sys; sys.exit_code = 3; sys.excepthook = lambda *_: print('hook'); 1 / 0",
     exited(1), b"hook\n"),
    ("import os\nif os.fork():\n    os.wait()\nprint('twice', flush=True)", OK, b"twice\ntwice\n"),
    ("import os\nif os.fork() == 0:\n    os._exit(9)\nprint(os.wait()[1] >> 8)",
     OK, b"9\n"),
    ("import os, time\nif os.fork() == 0:\n    time.sleep(60)\nprint('parent')", OK, b"parent\n"),
    ("import threading\nthreading.Thread(target=lambda: 1 / 0).start()", OK, b""),
    ("import threading, time\nthreading.Thread(target=time.sleep, args=[60], daemon=True).start()",
     OK, b""),
    ("import asyncio\nasyncio.run(asyncio.sleep(0))\nprint('slept')", OK, b"slept\n"),
    ("import subprocess; print(subprocess.run(['sh', '-c', 'exit 6']).returncode)", OK, b"6\n"),
    ("import subprocess, sys; print(subprocess.run([sys.executable, '-c', '7']).returncode)",
     OK, b"0\n"),
    ("import os; os.close(1)", OK, b""),
    ("import os; os.closerange(0, 256); os._exit(8)", exited(8), b""),
    ("import sys; sys.stdin.close(); print('on')", OK, b"on\n"),
    ("print(input())", exited(1), b""),
    ("import os; print(os.getcwd() == os.environ['HOME'] or os.path.isdir(os.getcwd()))",
     OK, b"True\n"),
    ("open('a', 'w').write('x'); print(open('a').read())", OK, b"x\n"),
    ("import tempfile; tempfile.TemporaryFile().write(b'x')", OK, b""),
    ("import resource; print(resource.getrlimit(resource.RLIMIT_CORE))", OK, b"(0, 0)\n"),
    ("import os; print(os.getsid(0) == os.getpid())", OK, b"True\n"),
    ("import os; os.nice(5); print('nice')", OK, b"nice\n"),
    ("import sys; sys.setrecursionlimit(50)\ndef f(n): return f(n + 1)\nf(0)", exited(1), b""),
    ("__import__('os').environ.clear(); print('clear')", OK, b"clear\n"),
    ("if __name__ == '__main__': print('main')", OK, b"main\n"),
    ("import sys; print(sys.argv)", OK, b"['main.py']\n"),
    ("import sys; print(sys.flags.dont_write_bytecode in (0, 1), len(sys.path) > 0)",
     OK, b"True True\n"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "wanted", "stdout"), PYTHON, ids=range(len(PYTHON)))
async def test_python_programs_end_as_they_would_anywhere(
    shared: Backend, code: str, wanted: Ending, stdout: bytes
) -> None:
    result = await shared.run(code)

    assert ending(result) == wanted, result.error_text
    assert result.stdout == stdout


COMMANDS: list[tuple[str | list[str], Ending, bytes]] = [
    ("", OK, b""),
    (":", OK, b""),
    ("exit 3", exited(3), b""),
    ("exit 255", exited(255), b""),
    ("false", exited(1), b""),
    ("false; true", OK, b""),
    ("no-such-command", exited(127), b""),
    ("./no-such-file", exited(127), b""),
    ("echo x > f; ./f", exited(126), b""),
    (["no-such-command"], exited(127), b""),
    (["/etc"], exited(126), b""),
    (["true"], OK, b""),
    (["printf", "%s|", "a b", "", "*"], OK, b"a b||*|"),
    (["sh", "-c", "kill -TERM $$"], killed(15), b""),
    (["sh", "-c", "kill -KILL $$"], killed(9), b""),
    ("sh -c 'kill -9 $$'", exited(137), b""),
    ("kill -SEGV $$", killed(11), b""),
    ("trap 'echo trapped' TERM; kill -TERM $$; echo after", OK, b"trapped\nafter\n"),
    ("echo out; echo err >&2", OK, b"out\n"),
    ("yes | head -2", OK, b"y\ny\n"),
    ("sleep 60 & echo started", OK, b"started\n"),
    ("(sleep 60; echo late) & exec echo now", OK, b"now\n"),
    ("setsid sleep 60 & echo apart", OK, b"apart\n"),
    ("nohup sleep 60 >/dev/null 2>&1 & echo deaf", OK, b"deaf\n"),
    ("exec 1>&-; echo closed", exited(1), b""),
    ("cat", OK, b""),
    ("read line", exited(1), b""),
    ("mkdir a && cd a && pwd | tail -c 3", OK, b"/a\n"),
    ("echo $((1 / 0))", exited(2), b""),
    ("set -e; false; echo never", exited(1), b""),
    ("ulimit -c", OK, b"0\n"),
    ("umask", OK, b"0022\n"),
    ("ls -A", OK, b"tmp\n"),
    ("echo -n; exec sh -c 'exit 12'", exited(12), b""),
]


@pytest.mark.parametrize(("command", "wanted", "stdout"), COMMANDS, ids=range(len(COMMANDS)))
async def test_commands_end_as_they_would_anywhere(
    shared: Backend, command: str | list[str], wanted: Ending, stdout: bytes
) -> None:
    result = await shared.exec(command)

    assert ending(result) == wanted, result.error_text
    assert result.stdout == stdout


SPIN = "while True: pass"
LIMITED: list[tuple[str, dict[str, Any], tuple[str, str | None]]] = [
    (SPIN, {"wall_s": 0.2}, ("timeout", "wall_s")),
    (SPIN, {"cpu_s": 0.2}, ("timeout", "cpu_s")),
    ("import time; time.sleep(60)", {"wall_s": 0.2, "cpu_s": 0.1}, ("timeout", "wall_s")),
    ("import signal; signal.signal(15, signal.SIG_IGN)\n" + SPIN, {"wall_s": 0.2},
     ("timeout", "wall_s")),
    ("import signal; signal.pthread_sigmask(0, range(1, 65))\n" + SPIN, {"cpu_s": 0.2},
     ("timeout", "cpu_s")),
    ("import os\nfor _ in range(3): os.fork()\n" + SPIN, {"cpu_s": 0.4}, ("timeout", "cpu_s")),
    ("import os\nwhile True: os.write(1, b'x' * 65536)", {}, ("output_limit", "output_bytes")),
    ("import os\nwhile True: os.write(2, b'x' * 65536)", {}, ("output_limit", "output_bytes")),
    ("import os\nos.write(1, b'x' * 999)", {"output_bytes": 250}, ("ok", None)),
    ("import os\nos.write(1, b'x' * 1000)", {"output_bytes": 250}, ("ok", None)),
    ("import os, time\nos.write(1, b'x' * 1001); time.sleep(60)", {"output_bytes": 250},
     ("output_limit", "output_bytes")),
    ("f = open('f', 'wb')\nwhile f.write(b'x' * 65536): pass", {}, ("nonzero", None)),
    ("i = 0\nwhile True:\n    i += 1; open(str(i), 'wb').write(b'x' * 1048576)", {},
     ("disk_full", "disk_bytes")),
]  # fmt: skip


@pytest.mark.parametrize(("code", "bounds", "wanted"), LIMITED, ids=range(len(LIMITED)))
async def test_whoever_passes_a_limit_is_told_which(
    shared: Backend, code: str, bounds: dict[str, Any], wanted: tuple[str, str | None]
) -> None:
    result = await shared.run(code, limits=replace(TIGHT, **bounds))

    assert (result.status, result.limit) == wanted, result.error_text


async def test_memory_beyond_the_limit_is_an_error_that_code_can_catch(shared: Backend) -> None:
    code = "try:\n    b'x' * (1 << 30)\nexcept MemoryError:\n    print('caught')"

    assert (await shared.run(code)).text == "caught\n"
    uncaught = await shared.run("b'x' * (1 << 30)")
    assert ending(uncaught) == ("oom", 1, None, "memory_bytes")


async def test_processes_and_threads_beyond_the_limit_are_refused(shared: Backend) -> None:
    fork = "import os\nn = 0\ntry:\n    while os.fork(): n += 1\nexcept BlockingIOError:\n"
    fork += "    print(n, flush=True)\n    os._exit(0)\nimport time; time.sleep(60)"
    thread = "import threading, time\nn = 0\ntry:\n    while True:\n"
    thread += (
        "        threading.Thread(target=time.sleep, args=[60], daemon=True).start(); n += 1\n"
    )
    thread += "except RuntimeError:\n    print(n)"
    for code in (fork, thread):
        count = int((await shared.run(code, limits=replace(TIGHT, pid_count=10))).text)
        assert 5 <= count <= 10


@pytest.mark.parametrize("count", [16, 64, 200])
async def test_open_files_are_bounded(shared: Backend, count: int) -> None:
    code = "kept = []\ntry:\n    while True: kept.append(open('/dev/null'))\n"
    code += "except OSError as error:\n    print(error.errno, len(kept))"
    result = await shared.run(code, limits=replace(TIGHT, open_file_count=count))
    errno, opened = map(int, result.text.split())

    assert errno == 24
    assert count - 12 <= opened <= count - 3


async def test_inodes_are_bounded(shared: Backend) -> None:
    code = "n = 0\ntry:\n    while True:\n        open(str(n), 'w').close(); n += 1\n"
    code += "except OSError as error:\n    print(error.errno, n)"
    result = await shared.run(code, limits=replace(TIGHT, inode_count=100))
    errno, count = map(int, result.text.split())

    assert errno == 28
    assert 50 <= count <= 100


@pytest.mark.parametrize("size", [0, 1, 64 * KIBIBYTE - 1, 64 * KIBIBYTE, 64 * KIBIBYTE + 1])
async def test_output_is_kept_up_to_the_cap_to_the_byte(shared: Backend, size: int) -> None:
    result = await shared.run(f"import os; os.write(2, b'e'); print('x' * {size}, end='')")

    assert result.stdout == b"x" * min(size, TIGHT.output_bytes)
    assert (result.stdout_bytes, result.stderr_bytes) == (size, 1)
    assert result.is_truncated == (size > TIGHT.output_bytes)
    assert result.is_ok


@pytest.mark.parametrize("content", [b"", b"\0", bytes(range(256)), b"x" * 200_000, b"\r\n\n\r"])
async def test_input_arrives_byte_for_byte(shared: Backend, content: bytes) -> None:
    limits = replace(TIGHT, output_bytes=1 << 20)
    through_python = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"

    assert (await shared.run(through_python, stdin=content, limits=limits)).stdout == content
    assert (await shared.exec(["cat"], stdin=content, limits=limits)).stdout == content


@pytest.mark.parametrize(
    "text", ["", "a", "a b", "$HOME", "`id`", "'\"", "\\", "é\u2028", "\n", "-n", "*", "=", "\t"]
)
async def test_arguments_and_variables_arrive_as_they_were_given(
    shared: Backend, text: str
) -> None:
    shown = await shared.exec(["printf", "%s", text])
    in_python = await shared.run("import sys; print(ascii(sys.argv[1]), end='')", argv=[text])
    variable = await shared.exec(["sh", "-c", 'printf "%s" "$VALUE"'], env={"VALUE": text})

    assert shown.stdout.decode() == text
    assert in_python.text == ascii(text)
    assert variable.stdout.decode() == text


async def test_figures_of_a_run_are_plausible(shared: Backend) -> None:
    code = "import time\nkept = b'x' * (50 << 20)\nwhile time.process_time() < 0.3: pass\n"
    result = await shared.run(code + "time.sleep(0.2)")

    assert 0.25 <= result.cpu_s <= TIGHT.cpu_s
    assert result.wall_s >= 0.4
    assert 50 << 20 <= result.peak_bytes <= 200 << 20
    assert result.queue_s >= 0
    assert result.setup_s >= 0


async def test_defaults_hold_where_nobody_names_limits(shared: Backend) -> None:
    code = (
        "import resource as r; print(r.getrlimit(r.RLIMIT_AS)[0], r.getrlimit(r.RLIMIT_FSIZE)[0])"
    )
    own = await shared.run(code)
    wide = await shared.run(code, limits=Limits(address_space_bytes=0))

    assert own.text == f"{TIGHT.memory_bytes} {TIGHT.file_bytes}\n"
    assert wide.text.split()[0] == "-1"


async def test_collected_files_are_the_last_state_and_exact(shared: Backend) -> None:
    code = "open('a', 'wb').write(bytes(range(256)))\nimport os\nos.mkdir('d'); os.mkfifo('p')\n"
    code += "os.symlink('a', 'l'); open('big', 'wb').truncate(1 << 30 >> 8)"
    result = await shared.run(code, collect=["a", "d", "p", "l", "no", "../a", "/etc/passwd"])

    assert result.files["a"] == bytes(range(256))
    wrong = {name: type(content) for name, content in result.files.items() if name != "a"}
    assert set(wrong) == {"d", "p", "l", "no", "../a", "/etc/passwd"}
    assert all(issubclass(kind, OSError) for kind in wrong.values())
