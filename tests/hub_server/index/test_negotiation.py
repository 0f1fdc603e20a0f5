"""Which form of a page a client gets."""

import pytest

from strop_hub.index.negotiation import Form, choose_form

PIP = (
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html; q=0.1, "
    "text/html; q=0.01"
)
UV = (
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, "
    "text/html;q=0.01"
)
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (PIP, Form.JSON_V1),
        (UV, Form.JSON_V1),
        (BROWSER, Form.HTML),
        ("", Form.HTML),
        ("*/*", Form.HTML),
        ("text/*", Form.HTML),
        ("application/*", Form.JSON_V1),
        ("application/vnd.pypi.simple.latest+json", Form.JSON_V1),
        ("application/vnd.pypi.simple.latest+html", Form.HTML_V1),
        ("application/vnd.pypi.simple.v1+html", Form.HTML_V1),
        ("APPLICATION/VND.PYPI.SIMPLE.V1+JSON ; Q=1", Form.JSON_V1),
        ("text/html;q=0, */*", Form.JSON_V1),
        ("application/json, text/html;q=0.1", Form.HTML),
    ],
)
def test_the_most_wanted_form_is_chosen(accept: str, form: Form) -> None:
    assert choose_form(accept) is form


@pytest.mark.parametrize(
    "accept",
    [
        "application/json",
        "application/vnd.pypi.simple.v2+json",
        "text/html;q=0",
        "*/*;q=0",
        "text/html;q=nan",
        "text/html;q=banana",
        ";;;,,,",
    ],
)
def test_a_client_that_accepts_no_known_form_gets_none(accept: str) -> None:
    assert choose_form(accept) is None


@pytest.mark.parametrize(
    ("query", "form"),
    [
        ("format=application/vnd.pypi.simple.v1%2Bjson", Form.JSON_V1),
        ("format=application/vnd.pypi.simple.v1+json", Form.JSON_V1),
        ("a=b&format=text/html", Form.HTML),
        ("format=application/json", None),
    ],
)
def test_the_format_in_the_address_decides_alone(query: str, form: Form | None) -> None:
    assert choose_form(PIP, query) is form


def test_a_very_long_accept_header_costs_no_more_than_a_short_one() -> None:
    assert choose_form("a/b," * 100_000 + "text/html") is None
