"""No form makes an upload fail, however broken it is."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.factories import a_sdist, a_wheel
from tests.hub_server.author import Author
from tests.hub_server.running_hub import run_hub

_BOUNDARY = "frontier"
FIELDS = (
    "content", "wheel", "source", "sdist", ":action", "name", "version", "filetype",
    "md5_digest", "sha256_digest", "blake2_256_digest", "protocol_version", "metadata_version",
    "attestations", "wheel_sha256", "tree_digest", "visibility", "description", "",
)  # fmt: skip


@pytest.fixture(scope="module")
def author(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Author]:
    """An author of a hub that only these tests torment."""
    folder = tmp_path_factory.mktemp("fuzz")
    with run_hub(folder / "data") as hub:
        author = Author.new(hub, folder)
        author.publish("maze", "0.1.0", "0.2.0")
        yield author


def part(name: str, filename: str | None, content: bytes, extra: bytes = b"") -> bytes:
    disposition = f'form-data; name="{name}"' + (f'; filename="{filename}"' if filename else "")
    head = b"Content-Disposition: " + disposition.encode("utf-8", "surrogatepass") + b"\r\n"
    return f"--{_BOUNDARY}\r\n".encode() + head + extra + b"\r\n" + content + b"\r\n"


def _mutated(body: bytes, seed: int) -> bytes:
    """The body with some bytes changed, cut or doubled."""
    chance = random.Random(seed)
    content = bytearray(body)
    for _ in range(chance.randint(0, 4)):
        at = chance.randrange(len(content) or 1)
        match chance.randrange(4):
            case 0:
                content[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del content[at : at + chance.randint(1, 40)]
            case 2:
                content[at:at] = content[at : at + chance.randint(1, 40)]
            case 3:
                del content[at:]
    return bytes(content)


TEXTS = st.text(max_size=40) | st.sampled_from(["maze", "0.1.0", "file_upload", "1", "sdist"])
NAMES = st.sampled_from(FIELDS) | st.text(st.characters(exclude_characters='"\r\n'), max_size=8)
FILENAMES = st.sampled_from(
    [None, "maze-0.1.0-py3-none-any.whl", "maze-0.1.0.tar.gz", "../x.whl", "a/b.tar.gz", "\0.whl"]
) | st.text(st.characters(exclude_characters='"\r\n'), max_size=12)
ADDRESSES = ("/legacy/", "/owners/{owner}/legacy/", "/api/v1/owners/{owner}/versions")


def torment_forms(author: Author, count: int, folder: Path) -> None:
    contents = [
        a_wheel(folder, is_foreign=True).read_bytes(),
        a_sdist(folder).read_bytes(),
        b"",
        b"PK\x03\x04",
        b"\x1f\x8b",
    ]
    parts = st.tuples(NAMES, FILENAMES, st.sampled_from(contents) | TEXTS.map(str.encode))

    with author.hub.client(author.token) as client:

        @given(
            st.lists(parts, max_size=6),
            st.sampled_from(ADDRESSES),
            st.integers(0, 2**32),
            st.data(),
        )
        @settings(
            max_examples=count,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def send(form: list[Any], address: str, seed: int, data: Any) -> None:
            body = b"".join(part(*one) for one in form) + f"--{_BOUNDARY}--\r\n".encode()
            kind = data.draw(
                st.sampled_from([f"multipart/form-data; boundary={_BOUNDARY}"] * 9 + ["text/plain"])
            )
            try:
                response = client.post(
                    address.format(owner=author.owner),
                    content=_mutated(body, seed) if seed % 2 else body,
                    headers={"content-type": kind},
                )
            except httpx.RemoteProtocolError as error:
                raise AssertionError(f"the hub broke off: {error}") from error
            assert response.status_code < 500, response.text

        send()


def test_no_form_makes_an_upload_fail(author: Author, tmp_path: Path) -> None:
    torment_forms(author, 150, tmp_path)

    assert author.hub.get("/readyz").status_code == 200


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_form_makes_an_upload_fail_at_length(author: Author, tmp_path: Path) -> None:
    torment_forms(author, 5000, tmp_path)
