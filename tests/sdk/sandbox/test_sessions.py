"""Interpreters that remember, under everything that a model may send them."""

import asyncio
from dataclasses import replace

import pytest

from strop.sandbox import Backend, SandboxSpec
from strop.sandbox.session import PythonSession
from tests.sdk.sandbox.conftest import TIGHT

pytestmark = pytest.mark.asyncio(loop_scope="module")
SPEC = SandboxSpec(limits=TIGHT)

PIECES: list[tuple[str, str, str, str | None]] = [
    ("", "ok", "", None),
    ("None", "ok", "", None),
    ("1", "ok", "", "1"),
    ("1;", "ok", "", "1"),
    ("x = 1", "ok", "", None),
    ("x: int = 1\nx", "ok", "", "1"),
    ("'a\\nb'", "ok", "", "'a\\nb'"),
    ("print(1)", "ok", "1\n", None),
    ("print('é\\u2028\\x00')", "ok", "é\u2028\0\n", None),
    ("for i in range(2): print(i)", "ok", "0\n1\n", None),
    ("def f(): return 3\nf()", "ok", "", "3"),
    ("class A:\n    def __repr__(self): return 'an A'\nA()", "ok", "", "an A"),
    ("class B:\n    def __repr__(self): raise ValueError\nB()", "error", "", None),
    ("__name__", "ok", "", "'__main__'"),
    ("import asyncio; asyncio.run(asyncio.sleep(0, 7))", "ok", "", "7"),
    ("raise SystemExit", "error", "", None),
    ("raise KeyboardInterrupt", "error", "", None),
    ("exit()", "error", "", None),
    ("input()", "error", "", None),
    ("1 +", "error", "", None),
    ("\x00", "error", "", None),
    ("return 1", "error", "", None),
    ("yield 1", "error", "", None),
    ("def f(): f()\nf()", "error", "", None),
    ("print('before'); [][1]", "error", "before\n", None),
    ("import sys; sys.stdout = None; print('nowhere')", "ok", "", None),
    ("import sys; sys.stderr.write('e') and None", "ok", "", None),
    ("import os; os.fork() or os._exit(0); os.wait(); 'parent'", "ok", "", "'parent'"),
    ("import threading; threading.Thread(target=print, args=['t']).start()", "ok", "t\n", None),
    ("b'x' * (1 << 30)", "error", "", None),
    ("'\\ud800'", "ok", "", "'\\ud800'"),
    ("print('\\ud800')", "ok", "\ud800\n", None),
    ("{'a': [1, (2,)]}", "ok", "", "{'a': [1, (2,)]}"),
]


@pytest.mark.parametrize(("code", "status", "stdout", "value"), PIECES, ids=range(len(PIECES)))
async def test_pieces_of_python_give_exactly_this(
    shared: Backend, code: str, status: str, stdout: str, value: str | None
) -> None:
    async with await shared.create(SPEC) as sandbox, await sandbox.python_session() as session:
        result = await session.run(code)
        after = await session.run("print('next'); 1 + 1")

    assert (result.status, result.stdout, result.value) == (status, stdout, value), result.stderr
    assert (after.status, after.stdout, after.value) == ("ok", "next\n", "2")


COMMANDS: list[tuple[str, str, str, int | None]] = [
    ("", "ok", "", 0),
    ("#", "ok", "", 0),
    ("true", "ok", "", 0),
    ("false", "error", "", 1),
    ("(exit 200)", "error", "", 200),
    ("no-such-command", "error", "", 127),
    ("echo a\necho b", "ok", "a\nb\n", 0),
    ("printf 'no newline'", "ok", "no newline", 0),
    ("printf '\\n\\n'", "ok", "\n\n", 0),
    ("cat <<'X'\n$HOME `id`\nX", "ok", "$HOME `id`\n", 0),
    ("echo 'it'\\''s'", "ok", "it's\n", 0),
    ('read x; echo "<$x>"', "ok", "<>\n", 0),
    ("cat", "ok", "", 0),
    ("echo 'unclosed", "error", "", None),
    ("set -u; echo ${NO_SUCH:-unset}", "ok", "unset\n", 0),
    ("trap - INT; echo trap", "ok", "trap\n", 0),
    ("for i in 1 2; do echo $i; done", "ok", "1\n2\n", 0),
    ("sleep 60 & echo $(jobs | wc -l)", "ok", "1\n", 0),
    ("printf '\\377\\n'", "ok", "\ufffd\n", 0),
    ("kill -9 $BASHPID; echo never", "dead", "", None),
    ("exec true", "dead", "", None),
    ("exit", "dead", "", None),
    ("set -e; false", "dead", "", None),
]


@pytest.mark.parametrize(
    ("commands", "status", "stdout", "exit_code"), COMMANDS, ids=range(len(COMMANDS))
)
async def test_commands_in_a_shell_give_exactly_this(
    shared: Backend, commands: str, status: str, stdout: str, exit_code: int | None
) -> None:
    async with await shared.create(SPEC) as sandbox, await sandbox.bash_session() as session:
        result = await session.run(commands)
        after = await session.run("echo next")

    assert (result.status, result.stdout) == (status, stdout), result.stderr
    if exit_code is not None:
        assert result.exit_code == exit_code
    assert after.stdout == ("" if status == "dead" else "next\n")
    assert (after.status == "dead") == (status == "dead")


async def test_state_goes_from_piece_to_piece_and_not_from_session_to_session(
    shared: Backend,
) -> None:
    async with (
        await shared.create(SPEC) as sandbox,
        await sandbox.python_session() as one,
        await sandbox.python_session() as other,
    ):
        await one.run("import math\ndef f(x): return math.floor(x) + y\ny = 1")
        await one.run("y = 10\n_kept = f(1.5)")
        mine, theirs = await one.run("_kept, _"), await other.run("'y' in globals()")

    assert (mine.status, theirs.value) == ("error", "False")


async def test_the_last_value_has_a_name(shared: Backend) -> None:
    async with await shared.create(SPEC) as sandbox, await sandbox.python_session() as session:
        await session.run("6 * 7")

        assert (await session.run("_ + 1")).value == "43"


async def test_pieces_that_come_at_once_run_one_after_the_other(shared: Backend) -> None:
    async with await shared.create(SPEC) as sandbox, await sandbox.python_session() as session:
        await session.run("seen = []")
        pieces = [session.run(f"seen.append({n})") for n in range(20)]
        await asyncio.gather(*pieces)
        result = await session.run("seen")

    assert result.value == str(list(range(20)))


async def test_a_cancelled_piece_ends_its_session_and_nothing_else(shared: Backend) -> None:
    async with await shared.create(SPEC) as sandbox:
        session = await sandbox.python_session()
        piece = asyncio.create_task(session.run("while True: pass"))
        await asyncio.sleep(0.1)
        piece.cancel()
        await asyncio.gather(piece, return_exceptions=True)

        assert not session.is_alive
        assert (await session.run("1")).status == "dead"
        assert (await sandbox.exec("echo alive")).text == "alive\n"


async def test_sessions_begin_in_the_folder_that_they_were_given(shared: Backend) -> None:
    async with await shared.create(SPEC) as sandbox:
        await sandbox.write("a/b/c", b"")
        async with await sandbox.python_session(cwd="a/b") as session:
            listed = await session.run("import os; os.listdir()")
        async with await sandbox.bash_session(cwd="a/b") as shell:
            shown = await shell.run("ls")

    assert (listed.value, shown.stdout) == ("['c']", "c\n")


async def test_a_folder_that_is_not_there_is_told(shared: Backend) -> None:
    async with await shared.create(SPEC) as sandbox:
        for session in (
            await sandbox.bash_session(cwd="nowhere"),
            await sandbox.python_session(cwd="nowhere"),
        ):
            result = await session.run("1")
            assert (result.status, session.is_alive) == ("dead", False)
            assert result.stderr == "nowhere: No such file or directory\n"


@pytest.mark.parametrize("forged", ["{}", "[]", "not json", '{"is_ok": true}', "9" * 5000])
async def test_a_forged_answer_only_ends_the_forgers_session(shared: Backend, forged: str) -> None:
    write = (
        f"import os\nfor fd in range(3, 20):\n    try: os.write(fd, {forged!r}.encode() + b'\\n')"
    )
    write += "\n    except OSError: pass"
    async with await shared.create(SPEC) as sandbox, await sandbox.python_session() as session:
        result = await session.run(write)

        assert result.status in ("dead", "ok")
        assert (await sandbox.exec("echo alive")).text == "alive\n"


async def test_output_and_values_of_a_session_are_capped(shared: Backend) -> None:
    spec = SandboxSpec(limits=replace(TIGHT, output_bytes=100))
    async with await shared.create(spec) as sandbox, await sandbox.python_session() as session:
        printed = await session.run("print('x' * 1000)")
        valued = await session.run("'y' * 1000")
        exact = await session.run("print('z' * 99)")

    assert (len(printed.stdout), printed.is_truncated) == (100, True)
    assert valued.value is not None
    assert len(valued.value) == 100
    assert (exact.stdout, exact.is_truncated) == ("z" * 99 + "\n", False)


async def test_a_flood_past_the_streams_is_held_and_the_session_goes_on(shared: Backend) -> None:
    async with await shared.create(SPEC) as sandbox, await sandbox.bash_session() as shell:
        flood = await shell.run("yes | head -c 3000000; echo end >&2")
        after = await shell.run("echo next")

    assert flood.is_truncated
    assert len(flood.stdout) <= TIGHT.output_bytes
    assert (flood.stderr, after.stdout) == ("end\n", "next\n")


async def _interrupted(session: PythonSession) -> bool:
    return (await session.run("import time\ntime.sleep(60)", wall_s=0.1)).status == "timeout"


async def test_a_session_outlives_many_interrupts(shared: Backend) -> None:
    async with await shared.create(SPEC) as sandbox, await sandbox.python_session() as session:
        await session.run("x = 5")
        results = [await _interrupted(session) for _ in range(5)]
        last = await session.run("x")

    assert results == [True] * 5
    assert last.value == "5"


async def test_memory_and_time_of_a_session_are_those_of_its_sandbox(shared: Backend) -> None:
    async with await shared.create(SPEC) as sandbox, await sandbox.python_session() as session:
        told = await session.run("import resource; resource.getrlimit(resource.RLIMIT_AS)[0]")

    assert told.value == str(TIGHT.memory_bytes)
