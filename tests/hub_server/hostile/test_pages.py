"""Pages of hostile uploads: well-formed, escaped, and able to load and run nothing."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.hub_server.author import Author
from tests.hub_server.running_hub import RunningHub

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "wbr"}
OPTIONAL_END = {"li", "p", "td", "th", "tr", "tbody", "thead", "dd", "dt", "option", "html", "body"}
LOADED = {"src", "href", "action", "formaction", "data", "poster", "srcset", "background"}

EVIL = {
    "an element": "<script>alert(1)</script>",
    "an end of an attribute": '"><img src=x onerror=alert(1)>',
    "an end of a title": "</title><script>alert(1)</script>",
    "an end of a text area": "</textarea></pre></code><svg onload=alert(1)>",
    "a comment": "<!--><img src=x onerror=alert(1)>-->",
    "a template": "{{ 7 * 7 }}{% raw %}${7*7}#{7*7}",
    "entities": "&lt;script&gt;&quot;&#39;&amp;amp;&#0;&bogus;",
    "quotes": "'\"`;=",
    "an address": "javascript:alert(1)//https://evil.example",
    "the other direction": "\u202eabc\u2066def",
    "an accent in two letters": "e\u0301",
}


class Page(HTMLParser):
    """Elements, attributes and text of a page; asserts that every element is closed in order."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(markup)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        assert len(dict(attrs)) == len(attrs), f"<{tag}> has an attribute twice: {attrs}"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element without contents."""
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Close an element, and those before it that need no end."""
        while self.open and self.open[-1] != tag and self.open[-1] in OPTIONAL_END:
            self.open.pop()
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note text."""
        self.text += data


def check_harmless(markup: str) -> Page:
    """The page, in which nothing runs and nothing comes from elsewhere but pictures."""
    page = Page(markup)
    for tag, attributes in page.elements:
        assert tag not in {"script", "iframe", "object", "embed", "base", "svg", "style", "frame"}
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name != "style", (tag, name)
            if name in LOADED:
                assert not (value or "").lower().lstrip().startswith(("javascript:", "data:"))
                if tag in ("link", "form"):
                    assert (value or "").startswith("/")
                    assert not (value or "").startswith("//")
    ids = [attributes["id"] for _, attributes in page.elements if attributes.get("id")]
    assert len(ids) == len(set(ids)), "an id comes twice"
    return page


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    return Author.new(hub, tmp_path)


@pytest.mark.parametrize("text", EVIL.values(), ids=EVIL)
def test_what_is_uploaded_is_shown_as_it_is_and_never_runs(
    author: Author, name: str, text: str
) -> None:
    # Headers of METADATA are ASCII as these tests write them; a README may hold any text.
    summary = f"Sum {text}" if text.isascii() else "Sum"
    author.publish(
        name,
        "0.1.0",
        "0.2.0",
        readme=f"# {text}\n\n{text}\n\n[{text}]({text})\n\n`{text}`\n",
        manifest={"summary": summary, "license": "MIT"},
    )
    author.yank(name, "0.1.0", f"why {text}")

    for path in (
        f"/{author.owner}/{name}",
        f"/{author.owner}/{name}/0.1.0",
        f"/?owner={author.owner}",
        f"/simple/{name}/",
        f"/owners/{author.owner}/simple/{name}/",
    ):
        response = author.hub.get(path)
        assert response.status_code == 200
        page = check_harmless(response.text)
        if not path.endswith(f"/simple/{name}/"):
            # Once decoded it is there letter by letter.
            assert summary in page.text


@pytest.mark.parametrize("text", EVIL.values(), ids=EVIL)
def test_what_a_visitor_types_comes_back_escaped(author: Author, text: str) -> None:
    with author.hub.client() as client:
        for parameter in ("q", "owner", "category", "tag"):
            response = client.get("/", params={parameter: text})
            assert response.status_code == 200
            check_harmless(response.text)
        for part in ("/nobody/{}", "/{}/maze", "/{}"):
            address = part.format(text.replace("/", "%2F").replace("?", "%3F").replace("#", "%23"))
            response = client.get(address.replace(" ", "%20"), headers={"accept": "text/html"})
            assert response.status_code in (303, 404)
            if "html" in response.headers.get("content-type", ""):
                check_harmless(response.text)


@pytest.mark.parametrize("path", ["/", "/?q=zz", "/{owner}/maze", "/{owner}/absent", "/robots.txt"])
def test_every_page_forbids_scripts_frames_and_foreign_forms(author: Author, path: str) -> None:
    author.publish("maze")

    response = author.hub.get(path.format(owner=author.owner))

    policy = dict(
        rule.strip().split(" ", 1)
        for rule in response.headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["form-action"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert "script-src" not in policy
    assert "unsafe" not in str(policy)
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    check_harmless(response.text)


def test_links_of_the_catalog_lead_to_pages_that_are_there(author: Author) -> None:
    author.publish("maze", "0.1.0", "1.0+local.1", "2.0rc1")
    seen, waiting = set(), [f"/{author.owner}/maze", f"/?owner={author.owner}"]
    with author.hub.client() as client:
        while waiting:
            path = waiting.pop()
            seen.add(path)
            response = client.get(path)
            assert response.status_code in (200, 303), path
            if not response.headers.get("content-type", "").startswith("text/html"):
                continue
            for tag, attributes in Page(response.text).elements:
                href = (attributes.get("href") or "").partition("#")[0]
                if tag in ("a", "link") and href.startswith("/") and href not in seen:
                    is_own = author.owner in href or href.startswith("/-/")
                    waiting += [href] if is_own and href not in waiting else []

    assert f"/{author.owner}/maze/1.0+local.1" in {path.replace("%2B", "+") for path in seen}
    assert len(seen) > 4
