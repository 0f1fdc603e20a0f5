"""Running code: results, limits, languages, many inputs."""

import asyncio
import shutil
from dataclasses import replace

import pytest

from strop.errors import SandboxBusyError, SandboxError
from strop.sandbox import Backend, Level, Limits, Profile, SandboxSpec
from strop.sandbox.language import Language
from tests.sdk.sandbox.conftest import MIB, TIERS, TIGHT, Tier, open_tier
from tests.waiting import until


async def test_a_result_tells_what_was_written_and_where_it_ran(
    backend: Backend, tier: Tier
) -> None:
    result = await backend.run("import sys; print(input()); sys.stderr.write('e')", stdin=b"hi\n")

    assert (result.status, result.exit_code, result.signal) == ("ok", 0, None)
    assert (result.stdout, result.stderr) == (b"hi\n", b"e")
    assert result.backend == tier.name
    assert (result.isolation == Level.NAMESPACE) == tier.has_namespaces
    assert 0 < result.wall_s < 30
    assert result.peak_bytes > MIB


@pytest.mark.parametrize(
    ("code", "status", "exit_code"),
    [
        ("raise SystemExit", "ok", 0),
        ("raise SystemExit(3)", "nonzero", 3),
        ("raise SystemExit('bye')", "nonzero", 1),
        ("import os; os._exit(9)", "nonzero", 9),
        ("1 / 0", "nonzero", 1),
        ("print(", "nonzero", 1),
        (
            "import threading, time\nthreading.Thread(target=time.sleep, args=[0.05]).start()",
            "ok",
            0,
        ),
        ("import atexit\natexit.register(print, 'end')", "ok", 0),
    ],
)
async def test_python_ends_as_an_interpreter_would(
    spaces: Backend, code: str, status: str, exit_code: int
) -> None:
    result = await spaces.run(code)

    assert (result.status, result.exit_code) == (status, exit_code), result.error_text


async def test_a_traceback_shows_the_program_and_nothing_of_ours(spaces: Backend) -> None:
    result = await spaces.run("def f():\n    return 1 / 0\n\nf()")

    assert result.error_text.splitlines()[0] == "Traceback (most recent call last):"
    assert "return 1 / 0" in result.error_text
    assert "strop" not in result.error_text


async def test_python_looks_freshly_started(spaces: Backend) -> None:
    code = """
import sys, random, __main__
print(__name__, __file__, sys.argv, [n for n in sys.modules if n.startswith("strop")])
__main__.x = 1
print(x, random.random())
import dataclasses, typing
@dataclasses.dataclass
class Point:
    x: int
print(Point(1), typing.get_type_hints(Point))
"""
    one, other = await spaces.run(code, argv=["a"]), await spaces.run(code, argv=["a"])

    assert one.text.startswith("__main__ main.py ['main.py', 'a'] []\n1 0.")
    assert one.text.endswith("Point(x=1) {'x': <class 'int'>}\n")
    assert one.text != other.text, "both drew the same random number"


async def test_a_set_of_texts_has_the_same_order_in_every_process(spaces: Backend) -> None:
    code = "import sys; print({str(n) for n in range(40)}, sys.flags.no_user_site, sys.path[0])"
    first = await spaces.run(code)
    async with await open_tier(TIERS[0]) as other:
        assert (await other.run(code)).stdout == first.stdout
    assert first.text.endswith(" 1 /box\n"), first.text


async def test_variables_come_from_the_caller_and_never_from_the_host(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    result = await backend.exec("env", env={"MODE": "test"})

    names = {line.partition("=")[0] for line in result.text.splitlines()}
    assert "MODE" in names
    assert "SECRET_TOKEN" not in names


async def test_files_go_in_and_come_out(backend: Backend) -> None:
    result = await backend.exec(
        "mkdir -p out && tr a-z A-Z < in/word > out/word && ln -s word out/link",
        files={"in/word": b"hello"},
        collect=["out/word", "out/link", "nothing"],
    )

    assert result.is_ok, result.error_text
    assert result.files["out/word"] == b"HELLO"
    assert isinstance(result.files["out/link"], OSError)
    assert isinstance(result.files["nothing"], FileNotFoundError)


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "a/../../evil"])
async def test_files_stay_below_the_sandboxs_folder(backend: Backend, name: str) -> None:
    with pytest.raises(SandboxError, match="could not prepare"):
        await backend.run("", files={name: b""})


async def test_output_beyond_the_cap_is_counted_and_not_kept(backend: Backend) -> None:
    result = await backend.run("print('x' * 100_000)")

    assert result.status == "ok"
    assert len(result.stdout) == 64 * 1024
    assert result.stdout_bytes == 100_001
    assert result.is_truncated


async def test_large_inputs_pass_and_unread_ones_do_not_block(backend: Backend) -> None:
    text = b"x" * (3 * MIB)
    read = await backend.run("import sys; print(len(sys.stdin.buffer.read()))", stdin=text)
    unread = await backend.run("print('done')", stdin=text)

    assert read.text == f"{3 * MIB}\n"
    assert unread.text == "done\n"


async def test_every_limit_has_its_own_name(backend: Backend) -> None:
    spin = "while True: pass"
    cpu = await backend.run(spin, limits=replace(TIGHT, cpu_s=1, wall_s=60))
    wall = await backend.run(spin, limits=replace(TIGHT, wall_s=0.3))
    patient = replace(TIGHT, wall_s=60)
    size = await backend.exec("head -c 20000000 /dev/zero > big", limits=patient)

    assert (cpu.status, cpu.limit) == ("timeout", "cpu_s")
    assert (wall.status, wall.limit) == ("timeout", "wall_s")
    assert (size.status, size.limit) in [("disk_full", "file_bytes"), ("disk_full", "disk_bytes")]


async def test_a_missing_command_is_the_callers_fault(backend: Backend) -> None:
    result = await backend.exec(["no-such-command"])

    assert (result.status, result.exit_code) == ("nonzero", 127)


C_PROGRAM = """
#include <stdio.h>
int main() { int n; scanf("%d", &n); printf("%d\\n", n * 2); }
"""
CPP_PROGRAM = """
#include <iostream>
int main() { int n; std::cin >> n; std::cout << n * 2 << std::endl; }
"""
SCRIPT = "console.log(Number(require('fs').readFileSync(0, 'utf8')) * 2)"


@pytest.mark.parametrize(
    ("language", "code", "needs"),
    [
        ("python-fresh", "import sys; print(int(sys.stdin.read()) * 2)", "python3"),
        ("bash", "read n; echo $((n * 2))", "bash"),
        ("c", C_PROGRAM, "gcc"),
        ("cpp", CPP_PROGRAM, "g++"),
        ("javascript", SCRIPT, "node"),
    ],
)
async def test_every_language_reads_and_writes(
    backend: Backend, language: Language, code: str, needs: str
) -> None:
    if shutil.which(needs, path="/usr/local/bin:/usr/bin:/bin") is None:
        pytest.skip(f"{needs} is not installed")
    limits = Limits(wall_s=120)
    result = await backend.run(code, language, stdin=b"21", limits=limits)

    assert result.text == "42\n", result.error_text


async def test_a_program_is_compiled_once_for_all_its_runs(spaces: Backend) -> None:
    code = "int main() { return 0; }"
    first = await spaces.run(code, "c")
    (binary,) = spaces._binaries.found.values()
    results = await asyncio.gather(*(spaces.run(code, "c") for _ in range(8)))

    assert {result.status for result in (first, *results)} == {"ok"}
    (same,) = spaces._binaries.found.values()
    assert same is binary


async def test_a_program_that_does_not_compile_gives_the_compilers_words(spaces: Backend) -> None:
    result = await spaces.run("int main() { return x; }", "c")

    assert (result.status, result.limit) == ("nonzero", "compile")
    assert "undeclared" in result.error_text


async def test_an_unknown_language_is_refused_with_those_that_there_are(spaces: Backend) -> None:
    with pytest.raises(ValueError, match="Choose one of python,"):
        await spaces.run("", "cobol")  # type: ignore[arg-type]


async def test_many_inputs_run_apart_from_each_other(backend: Backend) -> None:
    code = """
import os, sys, time
word = input()
if word == "spin":
    while True: pass
if word == "flood":
    while True: os.write(1, b"x" * 65536)
if word == "die":
    os.kill(os.getpid(), 9)
if word == "daemon" and os.fork() == 0:
    os.setsid(); os.closerange(0, 3); time.sleep(60)
if word == "leak":
    sys.modules["kept"] = word
print(word, "kept" in sys.modules)
"""
    words = ["a", "leak", "spin", "flood", "die", "daemon", "b"]
    limits = replace(TIGHT, cpu_s=1.0)
    results = await backend.run_many(code, [word.encode() for word in words], limits=limits)

    expected = ["ok", "ok", "timeout", "output_limit", "signal", "ok", "ok"]
    assert [result.status for result in results] == expected
    assert results[-1].text == "b False\n"


async def test_many_inputs_run_within_the_least_limits(backend: Backend) -> None:
    limits = replace(TIGHT, open_file_count=6, inode_count=3, pid_count=1)
    code = "import os, sys\nprint(input(), file=sys.stderr)\n"
    code += "for fd in range(3, 100):\n    try: os.fstat(fd); print(fd)\n    except OSError: pass\n"
    code += "try:\n    while True: os.dup(0)\nexcept OSError: print(os.dup2(0, 5))"
    results = await backend.run_many(code, [b"a", b"b"], limits=limits)

    told = [(result.status, result.text, result.error_text) for result in results]
    assert told == [("ok", "5\n", "a\n"), ("ok", "5\n", "b\n")]


async def test_a_case_that_cannot_be_started_is_no_result(backend: Backend, tier: Tier) -> None:
    if tier.name != "zygote-root":
        pytest.skip("only where all of a sandbox have one user does one run's bound meet another's")
    crowd = "import os, time\nfor _ in range(5):\n    if not os.fork(): time.sleep(600)\n"
    crowd += "print('up', flush=True)\ntime.sleep(600)"
    limits = replace(TIGHT, pid_count=4)
    async with await backend.create(SandboxSpec(limits=TIGHT)) as sandbox:
        job = await sandbox.start(["python3", "-c", crowd])
        assert await job.read_line() == b"up\n"
        with pytest.raises(SandboxError, match="could not prepare a run: BlockingIOError"):
            await sandbox.run_many("print(1)", [b""], limits=limits)


async def test_code_that_kills_its_forking_process_only_harms_itself(backend: Backend) -> None:
    code = "import os\nif input() == 'k': os.kill(os.getppid(), 9)\nprint('survived')"
    results = await backend.run_many(code, [b"a", b"k", b"b"])

    assert results[0].text == "survived\n"
    assert (await backend.run("print(1)")).text == "1\n"


async def test_a_syntax_error_shows_in_every_case(spaces: Backend) -> None:
    results = await spaces.run_many("print(", [b"", b""])

    assert ["SyntaxError" in result.error_text for result in results] == [True, True]


async def test_queue_time_is_told_and_never_charged() -> None:
    opened = await open_tier(TIERS[0])
    limits = replace(TIGHT, wall_s=4.0)
    async with Backend(opened._transport, concurrency=1, limits=limits) as backend:
        results = await asyncio.gather(
            *(backend.run("import time; time.sleep(0.5)") for _ in range(10))
        )

    # The last one has waited longer than a run may take.
    assert max(result.queue_s for result in results) > limits.wall_s
    assert {result.status for result in results} == {"ok"}


async def test_a_full_queue_refuses() -> None:
    opened = await open_tier(TIERS[0])
    async with Backend(opened._transport, concurrency=1, queue_limit=1) as backend:
        code = "import time; time.sleep(60)"
        waiting = [asyncio.create_task(backend.run(code)) for _ in range(2)]
        await until(lambda: backend._queue.waiting_count == 1)
        with pytest.raises(SandboxBusyError, match="queue_limit"):
            await backend.run("")
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_profiles_load_modules_before_any_run(spaces: Backend) -> None:
    profile = Profile(preload=("colorsys",))
    code = "import sys; print('colorsys' in sys.modules)"

    assert (await spaces.run(code, profile=profile)).text == "True\n"
    assert (await spaces.run(code)).text == "False\n"


async def test_a_profile_that_cannot_be_prepared_says_why(spaces: Backend) -> None:
    with pytest.raises(SandboxError, match="no_such_module"):
        await spaces.run("", profile=Profile(preload=("no_such_module",)))


async def test_a_closed_backend_says_so() -> None:
    backend = await open_tier(TIERS[0])
    await backend.close()
    await backend.close()

    with pytest.raises(SandboxError, match="is closed"):
        await backend.run("")
