"""Web search against an engine on this machine that speaks the providers' protocols."""

import time
from collections.abc import Iterator

import pytest

from strop.errors import ConfigError, RewardError, ToolFaultError
from strop.replies import Replies, only_recorded
from strop.search import PROVIDERS, WebSearch
from strop.search.web import MAX_PAGE_BYTES, text_of
from tests.sdk.loopback import drip, reply, unused_address
from tests.sdk.search.engine import HTML, KEY, Engine, run_engine


@pytest.fixture
def engine() -> Iterator[Engine]:
    with run_engine() as running:
        yield running


def source_of(engine: Engine, provider: str = "serper", key: str = KEY) -> WebSearch:
    return WebSearch(provider, f"{engine.server.url}/{provider}", key)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_provider_is_asked_in_its_own_way(engine: Engine, provider: str) -> None:
    url = engine.put("/pages/a.html", "<p>Text</p>")
    async with source_of(engine, provider) as source:
        [hit] = await source.search("what & where?", 4, Replies())
        assert (hit.page, hit.snippet) == (url, ".html: S")
        assert await source.read(hit.page, Replies()) == "Text"
    assert engine.queries == [(provider, "what & where?", 4)]


async def test_queries_and_counts_are_kept_within_their_limits(engine: Engine) -> None:
    async with source_of(engine) as source:
        await source.search("word " * 100_000, 1_000_000, Replies())
    [(_, query, count)] = engine.queries
    assert (len(query), count) == (300, 20)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_key_is_needed_and_its_variable_named(
    monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    monkeypatch.delenv(PROVIDERS[provider].key_variable, raising=False)
    with pytest.raises(ConfigError, match=PROVIDERS[provider].key_variable):
        WebSearch(provider)
    monkeypatch.setenv(PROVIDERS[provider].key_variable, KEY)
    assert WebSearch(provider).name == provider


def test_a_provider_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="Use one of: serper, tavily, brave"):
        WebSearch("altavista", key=KEY)


async def test_a_wrong_key_fails_the_tool_and_is_not_told(engine: Engine) -> None:
    async with source_of(engine, key="wrong-key") as source:
        with pytest.raises(ToolFaultError, match=r"401.*SERPER_API_KEY") as raised:
            await source.search("a", 1, Replies())
    assert "wrong-key" not in str(raised.value)


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_passing_fault_is_tried_again(
    engine: Engine, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strop.search.web._DELAYS_S", (0.0, 0.0))
    engine.faults = [reply(status), reply(status)]
    async with source_of(engine) as source:
        assert await source.search("a", 1, Replies()) == []
        engine.faults = [reply(status)] * 3
        with pytest.raises(ToolFaultError, match=f"{status} Status"):
            await source.search("b", 1, Replies())


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b"7", b'{"organic": 7}', b'{"organic": [7]}', b'{"organic": [{}]}'],
)
async def test_an_odd_reply_fails_the_tool(engine: Engine, body: bytes) -> None:
    engine.faults = [reply(200, body)]
    async with source_of(engine) as source:
        with pytest.raises(ToolFaultError, match="gave no results"):
            await source.search("a", 1, Replies())


@pytest.mark.parametrize("body", [b"{}", b'{"organic": null}', b'{"organic": []}'])
async def test_a_reply_without_results_finds_nothing(engine: Engine, body: bytes) -> None:
    engine.faults = [reply(200, body)]
    async with source_of(engine) as source:
        assert await source.search("a", 1, Replies()) == []


async def test_a_provider_that_is_not_reached_fails_the_tool() -> None:
    async with WebSearch("serper", unused_address(), KEY) as source:
        with pytest.raises(ToolFaultError, match="ConnectError"):
            await source.search("a", 1, Replies())


async def test_what_it_says_is_recorded_and_asked_for_once(engine: Engine) -> None:
    url = engine.put("/a", "<b>Bold</b>")
    replies = Replies()
    async with source_of(engine) as source:
        first = await source.search("a", 3, replies)
        assert await source.search("a", 3, replies) == first
        assert await source.read(url, replies) == await source.read(url, replies) == "Bold"
    assert len(engine.server.requests) == 2
    assert [each.source for each in replies.recorded()] == ["search:serper", "page:serper"]
    again = Replies(replies.recorded())
    with only_recorded():
        assert await source.search("a", 3, again) == first
        assert await source.read(url, again) == "Bold"
        with pytest.raises(RewardError, match="No reply of `search:serper`"):
            await source.search("b", 3, again)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://127.0.0.1/x",
        "http://localhost:{port}/a",
        "http://[::1]:{port}/a",
        "http://10.0.0.1/a",
        "http://169.254.169.254/latest/meta-data",
        "http://0.0.0.0:{port}/a",
        "http://2130706433:{port}/a",
        "http://[::ffff:127.0.0.1]:{port}/a",
        "http://\0/",
        "http://",
        "/a",
        "a",
        "",
        "http://[",
        "http://a b/",
        "//127.0.0.1/",
    ],
)
async def test_only_pages_of_the_public_web_are_read(engine: Engine, url: str) -> None:
    engine.put("/a", "Secret")
    engine.put("/away", "", {"location": url.format(port=engine.server.port)})
    async with source_of(engine) as source:
        assert await source.read(url.format(port=engine.server.port), Replies()) is None
        away = f"{engine.server.url}/away"
        if url not in ("/a", "a", "", "//127.0.0.1/"):
            assert await source.read(away, Replies()) is None


async def test_a_redirect_is_followed_and_a_circle_is_left(engine: Engine) -> None:
    engine.put("/to", "Here")
    from_url = engine.put("/from", "", {"location": "/to"})
    circle = engine.put("/circle", "", {"location": "/circle"})
    async with source_of(engine) as source:
        assert await source.read(from_url, Replies()) == "Here"
        assert await source.read(circle, Replies()) is None


@pytest.mark.parametrize(
    ("headers", "body", "text"),
    [
        ({"content-type": "text/plain"}, "Plain  text", "Plain text"),
        ({"content-type": "text/html; charset=no-such"}, "Text", "Text"),
        ({"content-type": "application/pdf"}, "%PDF", None),
        ({}, "Text", None),
        (HTML, "x" * (MAX_PAGE_BYTES + 1_000), "x" * MAX_PAGE_BYTES),
        (HTML, "\0\u2028", "\0"),
    ],
)
async def test_text_is_read_and_nothing_else(
    engine: Engine, headers: dict[str, str], body: str, text: str | None
) -> None:
    url = engine.put("/page", body, headers)
    async with source_of(engine) as source:
        assert await source.read(url, Replies()) == text
        assert await source.read(f"{engine.server.url}/missing", Replies()) is None


async def test_a_page_that_drips_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strop.search.web._TIMEOUT_S", 0.5)
    beginning = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\nSo "
    with drip(beginning) as url:
        async with WebSearch("serper", f"{url}/serper", KEY) as source:
            assert await source.read(f"{url}/page", Replies()) is None


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ("<h1>A</h1><p>b&amp;c<br>d</p>", "A b&c d"),
        ("a<script>x < y</script>b<STYLE type='x'>p{}</STYLE >c", "a b c"),
        ("a<script>never closed", "a"),
        ("1 < 2 and 3 > 2", "1 2"),
        ("a<!-- b -->c", "a c"),
        ("", ""),
    ],
)
def test_a_page_becomes_what_it_says(document: str, text: str) -> None:
    assert text_of(document) == text


@pytest.mark.parametrize("piece", ["<script", "<", "</script>", "<script><style>", "&amp", "<a "])
def test_a_hostile_page_takes_no_time(piece: str) -> None:
    started = time.process_time()
    text_of(piece * (MAX_PAGE_BYTES // len(piece)))
    assert time.process_time() - started < 15
