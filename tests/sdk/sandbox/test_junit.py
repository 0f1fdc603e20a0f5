"""Test results that come out of a sandbox are read as pytest means them, or refused."""

import contextlib
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.sandbox import ExecResult
from strop.sandbox.junit import JUnitError, TestOutcome, read_junit
from strop.sandbox.repository import TestReport

RESULT = ExecResult("ok", 0)
NAMES = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), min_size=1, max_size=12)
PARTS = st.text("abcdefgXYZ_", min_size=1, max_size=6)


def _suite(*cases: str) -> bytes:
    return f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>".encode()


def _case(inner: str = "", **attributes: str) -> str:
    words = " ".join(f"{name}={quoteattr(value)}" for name, value in attributes.items())
    return f"<testcase {words}>{inner}</testcase>"


@given(st.lists(PARTS, min_size=1, max_size=3), st.lists(PARTS, max_size=2), NAMES)
def test_ids_are_those_that_pytest_takes(folders: list[str], classes: list[str], name: str) -> None:
    file = "/".join(folders) + ".py"
    classname = ".".join([*folders, *classes])
    (outcome,) = read_junit(_suite(_case(file=file, classname=classname, name=name)))

    assert outcome.id == "::".join([file, *classes, name])
    assert outcome.status == "passed"


@pytest.mark.parametrize(
    ("inner", "status", "message"),
    [
        ("", "passed", ""),
        ("<system-out>text</system-out>", "passed", ""),
        ("<properties><property name='a' value='b'/></properties>", "passed", ""),
        ("<failure message='m'>text</failure>", "failed", "m"),
        ("<failure>text</failure>", "failed", ""),
        ("<error message='e'/>", "error", "e"),
        ("<skipped message='s'/>", "skipped", "s"),
        ("<failure message='f'/><error message='teardown'/>", "error", "teardown"),
        ("<failure message='f'/><skipped message='s'/>", "failed", "f"),
        ("<error message='e'/><skipped/>", "error", "e"),
        ("<skipped/><failure message='f'/>", "failed", "f"),
        ("<failure message='&lt;a&gt;&amp;'/>", "failed", "<a>&"),
        (f"<failure message='{'x' * 5000}'/>", "failed", "x" * 2000),
    ],
)
def test_the_worst_of_a_case_counts(inner: str, status: str, message: str) -> None:
    (outcome,) = read_junit(_suite(_case(inner, name="t")))

    assert (outcome.status, outcome.message) == (status, message)


@pytest.mark.parametrize(
    ("attributes", "test_id"),
    [
        ({}, ""),
        ({"name": "t"}, "t"),
        ({"classname": "a.B", "name": "t"}, "a.B::t"),
        ({"file": "a.py", "name": "t"}, "a.py::t"),
        ({"file": "a.py", "classname": "a", "name": "t[1-2]"}, "a.py::t[1-2]"),
        ({"file": "d/a.py", "classname": "d.a.B.C", "name": "t"}, "d/a.py::B::C::t"),
        ({"file": "a.py", "classname": "ab.C", "name": "t"}, "a.py::b::C::t"),
        ({"file": "a.txt", "classname": "", "name": "a.txt"}, "a.txt::a.txt"),
    ],
)
def test_cases_that_tell_little_have_a_name_too(attributes: dict[str, str], test_id: str) -> None:
    (outcome,) = read_junit(_suite(_case(**attributes)))

    assert outcome.id == test_id


@pytest.mark.parametrize(
    ("time", "wall_s"),
    [("0.25", 0.25), ("", 0.0), ("soon", 0.0), ("1e3", 1000.0), ("nan", 0.0), ("inf", 0.0)],
)
def test_times_are_read_or_0(time: str, wall_s: float) -> None:
    (outcome,) = read_junit(_suite(_case(name="t", time=time)))

    assert outcome.wall_s == wall_s


def test_no_tests_are_no_outcomes() -> None:
    assert read_junit(_suite()) == []
    assert read_junit(b"<html/>") == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0",
        b"<testsuite>",
        b"<testsuite></testsuites>",
        b"<a/><b/>",
        b"<a b='1' b='2'/>",
        b"<a>&undeclared;</a>",
        b"\xff\xfe<",
        b'<?xml version="1.0" encoding="no-such"?><a/>',
        b'<?xml version="1.0" encoding="utf-7"?><a/>',
        b'<?xml version="1.0" encoding="shift_jis"?><a/>',
        b'<!DOCTYPE a [<!ENTITY b "c">]><a/>',
        b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',
        b'<!DOCTYPE a [<!ENTITY % p SYSTEM "http://x/">%p;]><a/>',
    ],
)
def test_what_is_no_result_is_refused(content: bytes) -> None:
    with pytest.raises(JUnitError):
        read_junit(content)


@given(st.binary(max_size=80) | st.text("<>/testcase= '\"a&;!?[]", max_size=60).map(str.encode))
def test_whatever_the_code_has_written_is_read_or_refused(content: bytes) -> None:
    with contextlib.suppress(JUnitError):
        read_junit(content)


def test_more_tests_than_anybody_has_are_refused() -> None:
    with pytest.raises(JUnitError, match="more than 100000 tests"):
        read_junit(b"<a>" + b"<testcase/>" * 100_001 + b"</a>")


OUTCOMES = [TestOutcome("a", "passed"), TestOutcome("b", "failed"), TestOutcome("c", "skipped")]


@pytest.mark.parametrize(
    ("wanted", "is_good"),
    [([], True), (["a"], True), (["a", "b"], False), (["c"], False), (["d"], False)],
)
def test_only_tests_that_ran_and_passed_count(wanted: list[str], is_good: bool) -> None:
    assert TestReport(RESULT, OUTCOMES).all_passed(wanted) == is_good


def test_a_test_that_is_told_twice_is_told_by_nobody() -> None:
    twice = TestReport(RESULT, [*OUTCOMES, TestOutcome("a", "passed")])

    assert twice.status_of("a") == "missing"
    assert not twice.all_passed(["a"])
