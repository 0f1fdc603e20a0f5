"""A README becomes markup that can do nothing but be read."""

import time
from html.parser import HTMLParser

import pytest

from strop_hub.web.readme import render_readme

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)><a xlink:href='javascript:alert(1)'>x</a></svg>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt&colon;alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:x)",
    "<a href='jav&#x09;ascript:alert(1)'>x</a>",
    "<iframe src='//evil'></iframe>",
    "<form action='/x'><button formaction='javascript:alert(1)'>x</button></form>",
    "<style>body{display:none}</style>",
    "<link rel=stylesheet href='//evil/x.css'>",
    "<meta http-equiv=refresh content='0;url=//evil'>",
    "<base href='//evil/'>",
    "<object data='//evil'></object><embed src='//evil'>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "<div style='position:fixed;inset:0' class='notice warn'>Log in at evil</div>",
    "```python\n</code></pre><script>alert(1)</script>\n```",
    '<pre><code class="language-python">"><script>alert(1)</script></code></pre>',
    "![x](http://tracker/x.png)",
    "<details open ontoggle=alert(1)>x</details>",
    "<video src=x onerror=alert(1)></video>",
    "<!--><script>alert(1)</script>-->",
]
ALLOWED = {
    *("a", "aside", "b", "blockquote", "code", "details", "div", "em", "h2", "h3", "h4", "h6"),
    *("img", "input", "li", "p", "pre", "section", "span", "strong", "sup", "table", "tbody"),
    *("td", "th", "thead", "tr", "ul"),
}


def tags_of(markup: str) -> list[tuple[str, dict[str, str | None]]]:
    found: list[tuple[str, dict[str, str | None]]] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.append((tag, dict(attrs)))

    Parser().feed(markup)
    return found


@pytest.mark.parametrize("text", [*HOSTILE, "\n\n".join(HOSTILE)])
def test_nothing_in_a_readme_can_run_or_load_or_pose_as_the_page(text: str) -> None:
    for tag, attributes in tags_of(render_readme(text)):
        assert tag in ALLOWED
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        assert "notice" not in (attributes.get("class") or "")
        assert (attributes.get("href") or "#").startswith(("#", "https://", "http://", "mailto:"))
        assert (attributes.get("src") or "https://").startswith("https://")


def test_pictures_over_https_are_shown_without_telling_where_from() -> None:
    ((_, attributes),) = [
        entry for entry in tags_of(render_readme("![maze](https://a.b/c.png)")) if entry[0] == "img"
    ]

    assert attributes["src"] == "https://a.b/c.png"
    assert attributes["referrerpolicy"] == "no-referrer"
    assert attributes["loading"] == "lazy"


def test_headings_start_below_the_heading_of_the_page() -> None:
    markup = render_readme("# One\n\n## Two\n\n###### Six")

    assert [tag for tag, _ in tags_of(markup)] == ["h2", "h3", "h6"]


def test_anchors_lead_to_headings_of_the_readme_and_never_to_the_page() -> None:
    markup = render_readme("# Task\n\n[to](#task)\n\n<p id='main'>x</p>")

    assert 'id="user-content-task"' in markup
    assert 'href="#user-content-task"' in markup
    assert 'id="user-content-main"' in markup


def test_what_people_write_for_each_other_is_kept() -> None:
    table = "| a | b |\n|---|---|\n| 1 | **2** |"
    text = f"{table}\n\n- [x] written\n\n> [!NOTE]\n> Look\n\n```sh\nls <x>\n```"

    markup = render_readme(text)

    for kept in ("<table>", "<strong>2</strong>", 'class="admonition note"', "ls &lt;x&gt;"):
        assert kept in markup
    assert "disabled" in markup


def test_known_languages_are_coloured_and_others_are_shown_plain() -> None:
    assert '<span class="k">def</span>' in render_readme("```python\ndef f(): ...\n```")
    assert "<span" not in render_readme("```brainfuck\n+++\n```")


@pytest.mark.parametrize(
    "text",
    [
        "# a\n" * 20_000,
        "> " * 50_000 + "x",
        "<div>" * 30_000,
        '<pre><code class="language-python">' * 5_000,
        "```python\n" + '"' * 15_000 + "\n```",
        "[" * 60_000,
        "*a " * 60_000,
        "x" * 1_000_000,
        "[^a]\n" * 20_000 + "\n[^a]: x",
    ],
    ids=lambda text: ascii(text[:8]),
)
def test_no_readme_keeps_the_hub_busy(text: str) -> None:
    began = time.process_time()

    render_readme(text)

    assert time.process_time() - began < 4


@pytest.mark.parametrize("text", ["", "a\0b", "\ud800", "\u202e", "&#0;", "\r\n\r\n"])
def test_odd_text_is_rendered_without_a_fault(text: str) -> None:
    assert "\0" not in render_readme(text)
