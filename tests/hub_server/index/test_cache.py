"""Pages are kept while they are true, and no longer."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from strop.hub.wire import FileKind, VersionKind
from strop_hub import admin
from strop_hub.audit.feed import append_event
from strop_hub.hub import Hub
from strop_hub.index import cache as cache_module
from strop_hub.index.cache import PageCache, PageKey
from strop_hub.index.negotiation import Form
from strop_hub.models import Environment, File, Owner, OwnerKind, Version, VersionStatus, Visibility
from strop_hub.settings import Settings

ALL = PageKey("ada", None)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with admin.open_hub(Settings(data=tmp_path / "hub")) as opened:
        opened.database.write(lambda session: session.add(_owner()))
        yield opened


def _owner() -> Owner:
    return Owner(name="ada", kind=OwnerKind.PERSON, stored_bytes=0)


def add(hub: Hub, name: str) -> None:
    """Publish a version without going through a push."""

    def change(session: Session) -> None:
        owner = session.query(Owner).filter_by(name="ada").one()
        environment = Environment(owner_id=owner.id, name=name, visibility=Visibility.PUBLIC)
        session.add(environment)
        session.flush()
        version = Version(
            environment_id=environment.id,
            version="1.0",
            canonical_version="1",
            sort_key="1",
            is_prerelease=False,
            status=VersionStatus.VISIBLE,
            kind=VersionKind.STROP,
            digest="a" * 64,
            size_bytes=1,
            manifest_json="{}",
            published_by="ada",
        )
        session.add(version)
        session.flush()
        session.add(
            File(
                version_id=version.id,
                environment_id=environment.id,
                filename=f"{name}-1.0-py3-none-any.whl",
                kind=FileKind.WHEEL,
                sha256="a" * 64,
                size_bytes=1,
                uploaded_by="ada",
            )
        )
        append_event(session, environment, "publish", "1.0")

    hub.database.write(change)


async def text_of(cache: PageCache, key: PageKey) -> str:
    forms = await cache.get(key)
    assert forms is not None
    return forms.by_form[Form.JSON_V1].body.decode()


async def test_a_page_is_rendered_once_while_nothing_changes(hub: Hub) -> None:
    cache = PageCache(hub)
    add(hub, "maze")

    first = await cache.get(PageKey("ada", "maze"))

    assert first is not None
    assert await cache.get(PageKey("ada", "maze")) is first


async def test_a_change_drops_the_pages_that_it_is_about_and_the_lists(hub: Hub) -> None:
    cache = PageCache(hub)
    add(hub, "maze")
    kept = await cache.get(PageKey("ada", "maze"))
    assert "sums" not in await text_of(cache, ALL)

    add(hub, "sums")

    assert "sums" in await text_of(cache, ALL)
    assert await cache.get(PageKey("ada", "maze")) is kept


async def test_requests_at_once_all_see_a_change_of_this_process(hub: Hub) -> None:
    cache = PageCache(hub, clock=lambda: 0.0)
    add(hub, "maze")
    await text_of(cache, ALL)

    add(hub, "sums")
    texts = await asyncio.gather(*(text_of(cache, ALL) for _ in range(4)))

    assert all("sums" in text for text in texts)


async def test_what_another_process_wrote_is_seen_after_the_interval(hub: Hub) -> None:
    now = 0.0
    other = Hub.open(hub.settings)
    cache = PageCache(other, clock=lambda: now)
    add(hub, "maze")
    await text_of(cache, ALL)

    add(hub, "sums")
    now = cache_module.CHECK_INTERVAL_S / 2
    assert "sums" not in await text_of(cache, ALL)
    now = cache_module.CHECK_INTERVAL_S * 2
    assert "sums" in await text_of(cache, ALL)
    other.close()


async def test_more_changes_than_are_worth_reading_drop_everything(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "MAX_CHANGES", 2)
    cache = PageCache(hub)
    add(hub, "maze")
    kept = await cache.get(PageKey("ada", "maze"))

    for name in ("a", "b", "c"):
        add(hub, name)

    assert await cache.get(PageKey("ada", "maze")) is not kept


async def test_the_pages_kept_weigh_no_more_than_the_limit(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = PageCache(hub)
    for name in ("a", "b"):
        add(hub, name)
    first = await cache.get(PageKey("ada", "a"))
    assert first is not None
    monkeypatch.setattr(cache_module, "MAX_CACHED_BYTES", first.size_bytes + 10)

    await cache.get(PageKey("ada", "b"))

    assert await cache.get(PageKey("ada", "a")) is not first


async def test_pages_that_are_not_there_are_not_kept(hub: Hub) -> None:
    cache = PageCache(hub)

    assert await cache.get(PageKey("ada", "maze")) is None
    add(hub, "maze")
    assert await cache.get(PageKey("ada", "maze")) is not None
