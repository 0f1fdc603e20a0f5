"""A version's page shows what its author reported, to readers and in a real browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hub_server.author import API, Author
from tests.hub_server.checks.report import a_finding, a_report
from tests.hub_server.running_hub import RunningHub
from tests.hub_server.web.test_catalog import Page, visit
from tests.sdk.trajectory_tools.browser import CHROMIUM, Browser, open_browser

MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>"


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    return Author.new(hub, tmp_path)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("Chromium is absent: apt-get install chromium")
    with open_browser(tmp_path / "profile") as browser:
        yield browser


def report(author: Author, **given: Any) -> None:
    (version,) = author.publish("maze")
    with author.hub.client(author.token) as client:
        path = f"{API}/{author.owner}/maze/versions/0.1.0/checks"
        response = client.post(path, json=a_report(version["digest"], **given))
    assert response.status_code == 200, response.text


def page(author: Author) -> Page:
    return visit(author.hub, f"/{author.owner}/maze/0.1.0")


def test_a_version_without_a_report_is_not_checked(author: Author) -> None:
    author.publish("maze")

    shown = page(author)

    assert "Checknot checked" in shown.text
    assert "check" not in shown.ids


def test_a_report_shows_what_passed_what_it_scored_and_what_it_costs(author: Author) -> None:
    report(author)

    shown = page(author)

    text = " ".join(shown.text.split())
    assert "passed: 1 warning, 3 ok, 1 skipped" in text
    for told in ("Oracle1", "Empty reply0", "Random0.625", "Import0.25 s of processor time"):
        assert told in text
    assert "Dependencies5 beyond Strop, 84.3 MB installed" in text
    assert f"Reported by {author.owner}, and not tried by this hub" in text
    assert "Strop 0.1.0+0123abcd on Python 3.11.7, 1 Mar 2026" in text
    assert "check" in shown.ids
    assert "#check" in shown.links


def test_what_failed_stands_first(author: Author) -> None:
    findings = [a_finding("loads"), a_finding("oracle", "warning"), a_finding("fuzz", "failed")]
    report(author, findings=findings, measures={})

    text = " ".join(page(author).text.split())

    assert "failed: 1 failed, 1 warning, 1 ok" in text
    assert text.index("It is failed.") < text.index("It is warning.") < text.index("It is ok.")
    assert "beyond Strop" not in text


@pytest.mark.embedded
def test_a_browser_shows_the_report_as_text_and_runs_nothing_of_it(
    author: Author, browser: Browser
) -> None:
    long = "word" * 200
    findings = [a_finding("oracle", message=MARKUP), a_finding("fuzz", "failed", message=long)]
    report(author, findings=findings)
    browser.call("Page.navigate", url=f"{author.hub.url}/{author.owner}/maze/0.1.0#check")
    browser.wait("document.readyState === 'complete' && document.querySelector('#check')")

    text = browser.text("section[aria-labelledby=check]")

    assert MARKUP in text
    assert browser.evaluate("document.querySelectorAll('#main script, #main img').length") == 0
    assert browser.evaluate("document.scripts.length") == 0
    assert browser.complaints == []
    for width in (1280, 360):
        browser.resize(width, 800)
        browser.wait(f"window.innerWidth === {width}")
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.text("a[href='#check']") == "failed"
