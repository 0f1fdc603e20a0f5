"""A model works in its sandbox through tools, and hears what it can mend."""

import sys

import pytest

from strop.errors import SettingsError
from strop.models.scripted import call
from strop.sandbox import Backend, Profile, SandboxSpec
from strop.sandbox.base import ExecResult
from strop.sandbox.junit import TestOutcome
from strop.sandbox.repository import LIMITS, TestReport
from strop.sandbox.session import SessionResult
from strop.sandboxed import SandboxEpisode, sandbox_tools
from strop.sandboxed.tools import shortened, tell, tell_tests
from strop.sandboxed.workspace import Conduct
from tests.sdk.sandboxed.conftest import answers, make_environment, play


async def test_shell_python_and_files_share_a_folder_and_remember(backend: Backend) -> None:
    trajectory = await play(
        make_environment(backend),
        [
            call("bash", commands="export A=5; mkdir d; cd d; echo $PLACE"),
            call("bash", commands="basename $PWD; echo $A > a.txt"),
            call("python", code="x = int(open('d/a.txt').read())"),
            call("python", code="print('x'); x + 1"),
            call("view_file", path="d/a.txt"),
            call("view_file"),
        ],
    )

    assert trajectory.failure is None
    assert trajectory.reward == 1
    assert answers(trajectory) == [
        "inside",
        "d",
        "(no output)",
        "x\n6",
        "     1\t5",
        "d/",
    ]


async def test_files_are_written_edited_and_viewed_in_part(backend: Backend) -> None:
    text = "one\ntwo\nthree\n"
    trajectory = await play(
        make_environment(backend),
        [
            call("write_file", path="a/b.txt", content=text),
            call("edit_file", path="a/b.txt", old="two\n", new="2\nzwei\n"),
            call("view_file", path="/box/work/a/b.txt", first_line=2, last_line=3),
            call("bash", commands="cat a/b.txt"),
        ],
    )

    assert answers(trajectory) == [
        "a/b.txt has 14 characters.",
        "a/b.txt was changed at line 2.",
        "     2\t2\n     3\tzwei",
        "one\n2\nzwei\nthree",
    ]


async def test_what_an_edit_does_not_touch_stays_byte_for_byte(backend: Backend) -> None:
    trajectory = await play(
        make_environment(backend),
        [
            call("bash", commands=r"printf 'a\377\r\nb\r\n' > f"),
            call("edit_file", path="f", old="b\r", new="c\r"),
            call("bash", commands="od -An -c f | tr -d ' '"),
        ],
    )

    assert answers(trajectory)[-1] == r"a377\r\nc\r\n"


WRONG = [
    (call("edit_file", path="f", old="x", new="y"), "stands 2 times in f"),
    (call("edit_file", path="f", old="", new="y"), "stands 0 times in f"),
    (call("edit_file", path="f", old="nowhere", new="y"), "stands 0 times in f"),
    (call("edit_file", path="absent", old="x", new="y"), "No such file"),
    (call("view_file", path="absent"), "No such file"),
    (call("view_file", path="absent/"), "No such file"),
    (call("view_file", path="/etc/passwd"), "/etc/passwd is outside the working folder"),
    (call("view_file", path="/box/workshop"), "/box/workshop is outside the working folder"),
    (call("view_file", path="link"), "link: "),
    (call("view_file", path="../../etc/passwd"), "../../etc/passwd: "),
    (call("view_file", path="f", first_line=0), "f has 1 lines; first_line is 0"),
    (call("view_file", path="f", first_line=2), "f has 1 lines; first_line is 2"),
    (call("write_file", path="link/x", content=""), "link/x: "),
    (call("write_file", path="f/x", content=""), "f/x: "),
    (call("bash", commands="true", timeout_s=0), "timeout_s is 0"),
    (call("python", code="1", timeout_s=-1), "timeout_s is -1"),
    (call("python"), "code: Field required"),
    (call("bash", commands=["ls"]), "commands: "),
]


async def test_mistakes_are_told_to_the_model_and_the_rollout_goes_on(backend: Backend) -> None:
    prepare = call("bash", commands="echo xx > f; ln -s /etc/passwd link")
    calls = [wrong for wrong, _ in WRONG]
    trajectory = await play(make_environment(backend), [prepare, *calls])

    told = answers(trajectory)[1:]
    expected = [words for _, words in WRONG]
    assert [text for text, words in zip(told, expected, strict=True) if words not in text] == []
    assert all(text.startswith("Error: ") for text in told)
    assert trajectory.reward == 1


async def test_failed_commands_and_raised_errors_are_answers(backend: Backend) -> None:
    trajectory = await play(
        make_environment(backend),
        [
            call("bash", commands="echo out; echo bad >&2; (exit 7)"),
            call("bash", commands="if"),
            call("python", code="print('before'); 1 / 0"),
            call("python", code="def f(:"),
        ],
    )

    told = answers(trajectory)
    assert told[0] == "out\nbad\n[exit code 7]"
    assert "syntax error" in told[1]
    assert told[2].startswith("before\n")
    assert "ZeroDivisionError" in told[2]
    assert "SyntaxError" in told[3]
    assert trajectory.failure is None


async def test_what_takes_too_long_is_interrupted_and_state_stays(backend: Backend) -> None:
    trajectory = await play(
        make_environment(backend, "bash", "python"),
        [
            call("python", code="x = 7"),
            call("python", code="while True: pass", timeout_s=0.2),
            call("python", code="x"),
            call("bash", commands="A=8"),
            call("bash", commands="sleep 60", timeout_s=0.2),
            call("bash", commands="echo $A"),
        ],
    )

    told = answers(trajectory)
    assert "[interrupted: it took too long; variables are kept]" in told[1]
    assert "[interrupted: it took too long; variables are kept]" in told[4]
    assert (told[2], told[5]) == ("7", "8")


async def test_an_interpreter_that_ended_is_started_anew(backend: Backend) -> None:
    anew = "[it has ended; the next call starts anew, without variables]"
    trajectory = await play(
        make_environment(backend, "bash", "python"),
        [
            call("python", code="x = 1; import os; os._exit(3)"),
            call("python", code="'x' in globals()"),
            call("bash", commands="echo kept > kept; exit 3"),
            call("bash", commands="cat kept"),
        ],
    )

    assert answers(trajectory) == [anew, "False", anew, "kept"]


async def test_memory_beyond_the_limit_is_the_models_to_mend(backend: Backend) -> None:
    hungry = (
        "import os\n"
        "for _ in range(6):\n"
        "    if not os.fork():\n"
        "        kept = b'x' * (100 << 20)\n"
        "        import time; time.sleep(60)\n"
        "import time; time.sleep(60)"
    )
    trajectory = await play(
        make_environment(backend, "python"),
        [
            call(
                "python",
                code="try:\n    x = b'x' * (1 << 30)\nexcept MemoryError:\n    print('no')",
            ),
            call("python", code=hungry),
            call("python", code="1"),
        ],
    )

    told = answers(trajectory)
    assert told[0] == "no"
    assert "[the limit memory_bytes was passed; the next call starts anew" in told[1]
    assert told[2] == "1"


async def test_long_output_is_told_by_its_beginning_and_its_end(backend: Backend) -> None:
    trajectory = await play(
        make_environment(backend, "bash", "python", conduct=Conduct(answer_chars=100)),
        [
            call("bash", commands="seq 1000"),
            call("python", code="print('x' * 200_000)"),
        ],
    )

    first, second = answers(trajectory)
    assert first.startswith("1\n2\n")
    assert first.endswith("999\n1000")
    assert "characters left out]" in first
    assert len(first) < 200
    assert second.endswith("[more was written than is kept]")
    assert len(second) < 200


async def test_only_named_tools_are_offered(backend: Backend) -> None:
    trajectory = await play(make_environment(backend, "python"), [call("bash", commands="true")])

    assert answers(trajectory) == ["Error: There is no tool 'bash'. Use: python."]


def test_tools_that_do_not_exist_are_refused() -> None:
    with pytest.raises(SettingsError, match="no sandbox tool 'shell'"):
        sandbox_tools("shell")  # type: ignore[arg-type]


def test_models_see_a_description_of_every_tool_and_argument() -> None:
    for tool in sandbox_tools():
        spec = tool.spec
        properties = spec.parameters["properties"]
        assert isinstance(properties, dict)
        assert spec.description
        assert "episode" not in properties
        assert all("description" in str(each) for each in properties.values())


class Calculator(SandboxEpisode):
    async def setup(self) -> None:
        await super().setup()
        await self.workspace.write("calc.py", b"def add(a, b):\n    return a - b\n")
        tests = b"from calc import add\n\ndef test_zero(): assert add(0, 0) == 0\n\n"
        tests += b"def test_one(): assert add(1, 1) == 2, 'adding'\n"
        await self.workspace.write("test_calc.py", tests)


async def test_tests_run_and_tell_what_failed(backend: Backend) -> None:
    command = (f"{sys.prefix}/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    environment = make_environment(
        backend,
        "run_tests",
        "edit_file",
        episode=Calculator,
        spec=SandboxSpec(
            limits=LIMITS,
            profile=Profile(mounts=(sys.prefix,)),
            # Most of the time would go into plugins.
            env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        ),
        conduct=Conduct(test_command=command),
    )
    trajectory = await play(
        environment,
        [
            call("run_tests"),
            call("edit_file", path="calc.py", old="a - b", new="a + b"),
            call("run_tests", arguments=["test_calc.py::test_one"]),
        ],
    )

    wrong, _, right = answers(trajectory)
    assert wrong.startswith(
        "1 passed, 1 failed\nfailed: test_calc.py::test_one\nAssertionError: adding"
    )
    assert right == "1 passed"


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (SessionResult("ok"), "(no output)"),
        (SessionResult("ok", "a\n", "b", "None"), "a\nb\nNone"),
        (SessionResult("error", exit_code=1), "[exit code 1]"),
        (SessionResult("error", stderr="e\n"), "e"),
        (SessionResult("ok", "abc", is_truncated=True), "abc\n[more was written than is kept]"),
        (SessionResult("ok", exit_code=0), "(no output)"),
    ],
)
def test_results_are_put_into_words(result: SessionResult, words: str) -> None:
    assert tell(result, 100) == words


@pytest.mark.parametrize(("text", "most"), [("", 0), ("abc", 3), ("abcd", 3), ("x" * 99, 10)])
def test_a_shortened_text_keeps_as_much_as_it_may(text: str, most: int) -> None:
    short = shortened(text, most)

    kept = short if len(text) <= most else "".join(short.split("\n")[::2])
    assert len(kept) == min(len(text), most)
    assert (short == text) == (len(text) <= most)


def test_reports_without_results_show_what_was_written() -> None:
    result = ExecResult("nonzero", 4, stdout=b"out", stderr=b"err")

    assert tell_tests(TestReport(result, problem="no results: gone"), 99) == (
        "no results: gone\nouterr"
    )
    assert tell_tests(TestReport(result), 99) == "no tests ran"
    skipped = TestReport(result, [TestOutcome("a", "skipped"), TestOutcome("b", "error", "why")])
    assert tell_tests(skipped, 99) == "1 skipped, 1 error\nerror: b\nwhy"
