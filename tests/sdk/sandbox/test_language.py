"""How programs are started, and when two of them are the same to a compiler."""

import asyncio
import shutil
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.sandbox import Backend, ExecResult, Level, Limits
from strop.sandbox.language import (
    Language,
    Program,
    cache_key,
    check,
    compiled,
    compiler,
    interpreted,
)
from strop.sandbox.runs import BinaryCache
from tests.sdk.sandbox.conftest import TIGHT

SOURCES = st.binary(max_size=20)
FILES = st.dictionaries(st.text("ab.c", min_size=1, max_size=3), SOURCES, max_size=3)


@given(FILES, FILES)
def test_only_equal_files_have_one_key(one: dict[str, bytes], other: dict[str, bytes]) -> None:
    keys = [cache_key(Program("argv", ("gcc",), files=files)) for files in (one, other)]

    assert (keys[0] == keys[1]) == (list(one.items()) == list(other.items()))


@given(SOURCES, SOURCES)
def test_languages_do_not_share_binaries(one: bytes, other: bytes) -> None:
    in_c, in_cpp = compiler("c", one), compiler("cpp", other)

    assert in_c is not None
    assert in_cpp is not None
    assert cache_key(in_c) != cache_key(in_cpp)
    again = compiler("c", other)
    assert again is not None
    assert (cache_key(in_c) == cache_key(again)) == (one == other)


def test_a_file_cannot_pass_for_two() -> None:
    one = Program("argv", files={"a": b"\0b\x003\0xyz"})
    two = Program("argv", files={"a": b"", "b": b"xyz"})

    assert cache_key(one) != cache_key(two)


@pytest.mark.parametrize("language", get_args(Language))
def test_every_language_is_either_compiled_or_interpreted(language: Language) -> None:
    made = compiler(language, b"source")
    if made is None:
        program = interpreted(language, b"source", ["x"])
        assert program.argv[-1] == "x"
        assert b"source" in (program.code, *program.files.values())
    else:
        program = compiled(b"binary", ["x"])
        assert b"source" in made.files.values()
        assert program.argv == ("./main.bin", "x")
        assert program.executables == {"main.bin"}


def test_libraries_stand_after_what_needs_them() -> None:
    program = compiler("c", b"")

    assert program is not None
    assert program.argv.index("main.c") < program.argv.index("-lm")


@pytest.mark.parametrize("language", ["", "Python", "rust", "python ", "cpp20"])
def test_what_is_no_language_is_refused(language: str) -> None:
    with pytest.raises(ValueError, match="is no language of the sandbox"):
        check(language)


def test_only_runtimes_that_reserve_much_lose_their_bound() -> None:
    scripted = interpreted("javascript", b"", [])
    plain = interpreted("bash", b"", [])

    assert scripted.fit(TIGHT).address_space_bytes == 0
    assert scripted.fit(replace(TIGHT, address_space_bytes=5)).address_space_bytes == 5
    assert plain.fit(TIGHT) == TIGHT
    assert scripted.fit(TIGHT).memory_bytes == TIGHT.memory_bytes


def test_the_oldest_binaries_give_way() -> None:
    cache = BinaryCache()
    binary = bytes(100 << 20)
    for key in "abcd":
        cache.keep(key, binary)

    assert list(cache.found) == ["c", "d"]
    cache.keep("huge", bytes(300 << 20))
    assert list(cache.found) == ["huge"]


@given(
    st.floats(0.001, 1e6),
    st.integers(1, 1 << 40),
    st.none() | st.integers(0, 1 << 40),
)
def test_limits_travel_as_plain_numbers(wall_s: float, memory: int, space: int | None) -> None:
    limits = Limits(wall_s=wall_s, memory_bytes=memory, address_space_bytes=space)
    words = limits.to_wire()

    assert words["wall_s"] == wall_s
    assert words["address_space_bytes"] == (memory if space is None else space)
    assert set(words) == set(Limits.__slots__)


def test_levels_are_ordered_by_strength() -> None:
    names = ["NONE", "LANDLOCK", "NAMESPACE", "CONTAINER", "GVISOR", "MICROVM"]

    assert [level.name for level in sorted(Level)] == names


@pytest.mark.parametrize("status", ["ok", "nonzero", "signal", "timeout", "oom", "process_limit"])
def test_only_ok_is_ok(status: str) -> None:
    assert ExecResult(status, 0).is_ok == (status == "ok")  # type: ignore[arg-type]


def test_bytes_that_are_no_text_are_shown_and_kept() -> None:
    result = ExecResult("ok", 0, stdout=b"a\xff", stderr=b"\xfe", stdout_bytes=2, stderr_bytes=2)

    assert (result.text, result.error_text) == ("a\ufffd", "\ufffd")
    assert result.stdout == b"a\xff"
    assert result.is_truncated


NEEDS_GCC = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
SLEEPER = "#include <unistd.h>\nint main(int n, char **v) { return n == 2 ? v[1][0] : 9; }\n// "


@NEEDS_GCC
async def test_arguments_and_cases_do_not_compile_again(spaces: Backend) -> None:
    codes = [(await spaces.run(SLEEPER, "c", argv=[word])).exit_code for word in "ab"]
    many = await spaces.run_many(SLEEPER, [b"", b"", b""], "c", argv=["c"])

    assert codes == [97, 98]
    assert [result.exit_code for result in many] == [99] * 3
    assert len(spaces._binaries.found) == 1
    assert spaces._binaries.pending == {}


@NEEDS_GCC
async def test_a_cancelled_compilation_is_taken_up_by_the_next(spaces: Backend) -> None:
    first = asyncio.create_task(spaces.run(SLEEPER + "1", "c"))
    second = asyncio.create_task(spaces.run(SLEEPER + "1", "c"))
    await asyncio.sleep(0.01)
    first.cancel()

    assert (await second).exit_code == 9
    assert first.cancelled() or (await first).exit_code == 9


@NEEDS_GCC
async def test_a_failed_compilation_is_told_for_every_case_and_kept_by_nobody(
    spaces: Backend,
) -> None:
    results = await spaces.run_many("int main() {", [b"", b""], "c")

    assert [(result.status, result.limit) for result in results] == [("nonzero", "compile")] * 2
    assert spaces._binaries.found == {}


@NEEDS_GCC
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ('#include "/etc/shadow"', "No such file"),
        ("#include <no_such_header.h>", "No such file"),
        ("#error stop here", "stop here"),
    ],
)
async def test_a_compiler_sees_no_more_than_a_program(
    spaces: Backend, code: str, words: str
) -> None:
    result = await spaces.run(code, "c")

    assert result.limit == "compile"
    assert words in result.error_text
