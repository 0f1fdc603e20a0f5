"""Every route of the API with odd values: never a fault, and always an answer as described."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.hub_server.author import Author
from tests.hub_server.checks.report import a_report
from tests.hub_server.hostile.conformity import Description, fill
from tests.hub_server.running_hub import RunningHub

TOO_MANY_DIGITS = "9" * 5000
"""More than Python converts to a number."""

ODD_PARTS = {
    "NUL": "%00",
    "NUL behind a name": "maze%00",
    "no UTF-8": "%ff%fe",
    "a surrogate": "%ed%a0%80",
    "overlong UTF-8": "%c0%ae%c0%ae",
    "two dots": "%2e%2e",
    "a slash": "a%2Fb",
    "a backslash": "a%5Cb",
    "a line break": "%0d%0aX:1",
    "a space": "%20",
    "a question mark": "a%3Fb%23c",
    "per cent": "%25",
    "an accent": "%C3%A9",
    "beyond the basic plane": "%F0%9F%92%A9",
    "written from right to left": "%E2%80%AEabc",
    "wildcards": "%25_%25",
    "quotes": "%27%22%60;--",
    "markup": "%3Cscript%3E",
    "a template": "%7B%7B7*7%7D%7D",
    "a long name": "x" * 5000,
    "too many digits": TOO_MANY_DIGITS,
    "too many digits behind a dot": f"1.{TOO_MANY_DIGITS}",
    "too large an epoch": f"{TOO_MANY_DIGITS}!1",
    "a long local version": f"1.0+{'a.' * 1000}a",
    "a tag": "latest",
    "an operator": "%3E%3D1.0",
}
BODIES: dict[str, dict[str, Any]] = {
    "yank": {"reason": "x"},
    "set_status": {"status": "active"},
    "quarantine_version": {"reason": "x"},
    "purge": {"version": "99.9", "reason": "x"},
    "set_tag": {"version": "99.9"},
    "resolve_references": {"references": ["a/b"]},
    "report_check": a_report("0" * 64),
}


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    author = Author.new(hub, tmp_path)
    author.publish("maze")
    return author


@pytest.fixture
def description(hub: RunningHub) -> Description:
    return Description(hub.get("/openapi.json").json())


def parts_of(path: str) -> list[str]:
    return re.findall(r"\{(\w+)\}", path)


def values_for(author: Author, path: str) -> dict[str, str]:
    """What is there, and harmless words for parts that this test does not know."""
    known = {"owner": author.owner, "name": "maze", "version": "99.9"}
    return {part: known.get(part, "other") for part in parts_of(path)}


def with_odd_parts(author: Author, path: str, odd: str) -> Iterator[str]:
    """The path with each of its parts replaced in turn."""
    for part in parts_of(path):
        yield fill(path, **values_for(author, path) | {part: odd})


@pytest.mark.parametrize("odd", ODD_PARTS.values(), ids=ODD_PARTS)
def test_an_odd_part_of_an_address_is_answered_as_described(
    author: Author, description: Description, odd: str
) -> None:
    with author.hub.client(author.hub.admin_token) as client:
        for name, (method, path, _) in description.operations.items():
            for address in with_odd_parts(author, path, odd):
                response = client.request(method, address, json=BODIES.get(name))
                assert response.status_code < 500, (method, address[:200])
                description.check(name, response)
    assert author.hub.get(f"/api/v1/environments/{author.owner}/maze").status_code == 200


@pytest.mark.parametrize("odd", ODD_PARTS.values(), ids=ODD_PARTS)
def test_an_odd_part_of_a_page_or_of_the_index_is_no_fault(author: Author, odd: str) -> None:
    owner = author.owner
    paths = (
        f"/{odd}",
        f"/{odd}/maze",
        f"/{owner}/{odd}",
        f"/{owner}/maze/{odd}",
        f"/-/static/{odd}",
        f"/simple/{odd}/",
        f"/simple/maze/{odd}",
        f"/owners/{odd}/simple/",
        f"/owners/{owner}/simple/{odd}/",
        f"/owners/{odd}/files/maze/maze.whl",
        f"/owners/{owner}/files/{odd}/maze.whl",
        f"/owners/{owner}/files/maze/{odd}",
        f"/auth/owners/{odd}/simple/",
        f"/auth/owners/{owner}/simple/{odd}/",
        f"/auth/owners/{owner}/files/maze/{odd}",
    )
    with author.hub.client(author.token) as client:
        for path in paths:
            response = client.get(path)
            assert response.status_code in (301, 303, 404, 405), path[:200]
            assert response.headers["strop-hub"]


@pytest.mark.parametrize("odd", ODD_PARTS.values(), ids=ODD_PARTS)
def test_an_odd_parameter_is_answered_as_described(
    author: Author, description: Description, odd: str
) -> None:
    with author.hub.client(author.token) as client:
        for name, (method, path, operation) in description.operations.items():
            for parameter in operation.get("parameters", []) if method == "GET" else []:
                if parameter["in"] == "query":
                    query = f"{parameter['name']}={odd}"
                    address = fill(path, **values_for(author, path))
                    response = client.get(f"{address}?{query}&{query}")
                    assert response.status_code < 500, (path, parameter["name"])
                    description.check(name, response)
        for query in ("q", "owner", "category", "tag", "cursor"):
            assert client.get(f"/?{query}={odd}").status_code < 500
        for page in (f"/{author.owner}/maze?cursor=", "/simple/?format=", "/simple/maze/?format="):
            assert client.get(page + odd).status_code < 500


ODD_BODIES = {
    "nothing": b"",
    "no JSON": b"{",
    "no UTF-8": b"\xff\xfe\x00",
    "another encoding": '{"references": ["a/b"]}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"references": ["a/b"]}',
    "null": b"null",
    "a list": b"[]",
    "a number": b"1e9999",
    "not a number": b'{"references": [NaN]}',
    "nested without end": b"[" * 100_000,
    "nested inside": b'{"references":' + b"[" * 100_000,
    "a huge number": b'{"references": ["a/b"], "python_version": ' + b"9" * 6000 + b"}",
    "a key twice": b'{"references": ["a/b"], "references": 7}',
    "a surrogate": b'{"references": ["\\ud800/b"], "reason": "\\ud800", "version": "\\udfff"}',
    "a NUL": b'{"references": ["a/b\\u0000"], "reason": "\\u0000", "version": "1\\u0000"}',
    "control letters": b'{"references": ["a\\n/b\\u001b[2J"], "reason": "\\u001b[2J\\r\\n"}',
    "a long reason": b'{"references": ["a/b"], "reason": "' + b"x" * 600 + b'"}',
    "no reference": b'{"references": []}',
    "an empty reference": b'{"references": [""]}',
    "too many references": b'{"references": [' + b'"a/b",' * 500 + b'"a/b"]}',
    "many keys": b"{" + b",".join(b'"%d": 1' % n for n in range(50_000)) + b"}",
}


@pytest.mark.parametrize("body", ODD_BODIES.values(), ids=ODD_BODIES)
def test_an_odd_body_is_answered_as_described(
    author: Author, description: Description, body: bytes
) -> None:
    # A purge of everything would be no odd request, and a status that everybody shares is put back.
    for token in (None, author.token):
        with author.hub.client(token) as client:
            for name, (method, path, _) in description.operations.items():
                if method not in ("POST", "PUT"):
                    continue
                response = client.request(
                    method,
                    fill(path, **values_for(author, path)),
                    content=body,
                    headers={"content-type": "application/json"},
                )
                assert response.status_code < 500, (name, response.text)
                description.check(name, response)


ODD_PYTHONS = [TOO_MANY_DIGITS, f"3.{TOO_MANY_DIGITS}", "", " ", "3.x", "latest", "\0", "é", "3 .1"]


@pytest.mark.parametrize("python", ODD_PYTHONS)
def test_a_python_version_that_is_none_is_refused(author: Author, python: str) -> None:
    body = {"references": [f"{author.owner}/maze"], "python_version": python}

    response = httpx.post(f"{author.hub.url}/api/v1/resolve", json=body)

    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")
    assert "3.11.7" in response.json()["detail"]
    assert len(response.json()["detail"]) < 300


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "maze",
        "a/b/c",
        "a/b@",
        "a/b@@1",
        "a/b@ 1",
        "a/b@>=",
        "a/b@,",
        "a/b@sha256:xyz",
        "a/b@sha256:abc",
        "a/b@LATEST",
        "a\0/b",
        "\ud800/b",
        "a/\udfff",
        "a/b@\ud800",
        "a/b\n",
        "../b",
        "a/..",
        "a/.b",
        "é/b",
        f"{'a' * 101}/b",
        f"a/b@{TOO_MANY_DIGITS}",
        f"a/b@>={TOO_MANY_DIGITS}",
        f"a/b@==1.{TOO_MANY_DIGITS}.*",
    ],
)
def test_a_reference_that_names_nothing_fails_alone(author: Author, reference: str) -> None:
    good = f"{author.owner}/maze"
    # Lone surrogates have no form in UTF-8, so the body is ASCII.
    body = json.dumps({"references": [reference, good]})

    response = httpx.post(
        f"{author.hub.url}/api/v1/resolve",
        content=body,
        headers={"content-type": "application/json"},
    )

    assert response.status_code == 200
    bad, fine = response.json()["items"]
    assert bad["reference"] == reference
    assert bad["code"] == "invalid_reference"
    assert fine["version"] == "0.1.0"


def test_the_ordinary_answers_are_as_described(author: Author, description: Description) -> None:
    (version,) = author.publish("maze", "0.2.0")
    filename = version["files"][0]["filename"]
    parts = {"version": "0.2.0", "filename": filename, "tag": "stable"}
    seen = set()
    with author.hub.client(author.token) as client:
        for name, (method, path, _) in description.operations.items():
            if (
                method == "DELETE"
                or name in ("push", "purge", "quarantine_version")
                or "legacy" in path
            ):
                continue
            body = BODIES.get(name)
            if name == "set_tag":
                body = {"version": "0.2.0"}
            elif name == "report_check":
                body = a_report(version["digest"])
            elif name == "resolve_references":
                body = {"references": [f"{author.owner}/maze"]}
            response = client.request(
                method, fill(path, **values_for(author, path) | parts), json=body
            )
            description.check(name, response)
            seen |= {name} if response.status_code == 200 else set()

    assert {"show_caller", "list_environments", "show_environment", "list_versions"} <= seen
    assert {"show_version", "download_file", "resolve_references", "yank"} <= seen
    assert {"report_check", "list_checks"} <= seen
