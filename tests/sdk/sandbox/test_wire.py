"""Frames say exactly what was put into them."""

import math
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.errors import SettingsError
from strop.sandbox import Limits, SandboxSpec
from strop.sandbox.backends.agent import read_spec, write_spec
from strop.sandbox.wire import HEADER, REQUEST, Request, pack_frame, pack_result, unpack_result

BLOBS = st.binary(max_size=200)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=10)
REQUESTS = st.builds(
    Request,
    st.sampled_from(["python", "argv", "files"]),
    st.just(Limits().to_wire()),
    argv=st.lists(NAMES, max_size=3).map(tuple),
    code=BLOBS,
    env=st.dictionaries(NAMES, NAMES, max_size=3),
    cwd=NAMES,
    stdin=BLOBS,
    files=st.dictionaries(NAMES, BLOBS, max_size=3),
    executables=st.frozensets(NAMES, max_size=2),
    cases=st.none() | st.lists(BLOBS, max_size=4).map(tuple),
    collect=st.lists(NAMES, max_size=3).map(tuple),
    collect_bytes=st.integers(0, 1 << 40),
    is_streaming=st.booleans(),
)


@given(REQUESTS)
def test_a_request_comes_out_as_it_went_in(request: Request) -> None:
    frame = request.pack()
    tag, size = HEADER.unpack_from(frame)

    assert (tag, size) == (REQUEST, len(frame) - HEADER.size)
    assert Request.unpack(frame[HEADER.size :]) == request


@given(st.lists(BLOBS, max_size=4))
def test_a_result_comes_out_as_it_went_in(blobs: list[bytes]) -> None:
    frame = pack_result(b"r", {"status": "ok"}, blobs)

    assert unpack_result(frame[HEADER.size :]) == ({"status": "ok"}, blobs)


def test_a_frame_has_a_tag_a_length_and_a_payload() -> None:
    assert pack_frame(b"i", b"abc") == b"i\x00\x00\x00\x03abc"


def test_address_space_follows_memory_unless_it_is_set() -> None:
    assert Limits(memory_bytes=7).to_wire()["address_space_bytes"] == 7
    assert Limits(address_space_bytes=0).to_wire()["address_space_bytes"] == 0


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, 1 << 62])
def test_a_limit_that_bounds_nothing_is_refused(name: str, value: float) -> None:
    if (name, value) == ("address_space_bytes", 0):
        return
    spec = write_spec(SandboxSpec())
    spec["limits"][name] = value

    with pytest.raises(SettingsError, match=f"above 0.*{name}={value!r}"):
        Limits(**{name: value})  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=name):
        read_spec(spec)


@pytest.mark.parametrize(("name", "least"), [("open_file_count", 6), ("inode_count", 3)])
def test_a_limit_that_the_sandbox_itself_needs_is_named_with_its_least(
    name: str, least: int
) -> None:
    assert getattr(Limits(**{name: least}), name) == least
    with pytest.raises(SettingsError, match=f"{name}={least - 1}, of which it needs {least} or"):
        Limits(**{name: least - 1})
