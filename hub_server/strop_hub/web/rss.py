"""What is new, for feed readers. Source: RSS 2.0."""

import re
from email.utils import format_datetime
from xml.etree import ElementTree

from fastapi import APIRouter, Response

from strop.hub.wire import Change
from strop_hub.changes.service import newest_changes
from strop_hub.dependencies import HubParts
from strop_hub.hub import Hub, in_thread

SHOWN = 50
_INVALID = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TITLES = {"publish": "published", "yank": "yanked", "deprecate": "deprecated", "check": "checked"}

router = APIRouter(include_in_schema=False)


@router.get("/-/rss.xml")
@router.head("/-/rss.xml")
async def show_rss(hub: HubParts, owner: str = "", name: str = "") -> Response:
    """The newest public changes: of everything, of one owner, or of one environment."""
    return await in_thread(hub.workers.database, _show, hub, owner, name)


def _show(hub: Hub, owner: str, name: str) -> Response:
    with hub.database.read() as session:
        changes = newest_changes(session, SHOWN, owner, name)
    headers = {"cache-control": "public, max-age=60"}
    return Response(
        render_rss(changes, hub.settings.url, "/".join(filter(None, (owner, name)))),
        headers=headers,
        media_type="application/rss+xml",
    )


def render_rss(changes: list[Change], url: str, about: str) -> bytes:
    """The feed as XML; `about` is what it is narrowed to."""
    rss = ElementTree.Element("rss", version="2.0")
    channel = ElementTree.SubElement(rss, "channel")
    _add(channel, "title", f"Strop hub: {about or 'what is new'}")
    _add(channel, "link", f"{url}/")
    _add(channel, "description", "Environments that were published or changed.")
    for change in changes:
        item = ElementTree.SubElement(channel, "item")
        version = f" {change.version}" if change.version else ""
        done = _TITLES.get(change.action, change.action)
        page = f"{url}/{change.owner}/{change.name}"
        _add(item, "title", f"{change.owner}/{change.name}{version}: {done}")
        _add(item, "link", page)
        _add(item, "description", change.details.get("reason", ""))
        _add(item, "pubDate", format_datetime(change.happened_at))
        _add(item, "guid", f"{url}/#{change.serial}")
    content: bytes = ElementTree.tostring(rss, encoding="utf-8", xml_declaration=True)
    return content


def _add(parent: ElementTree.Element, tag: str, text: str) -> None:
    ElementTree.SubElement(parent, tag).text = _INVALID.sub("\ufffd", text)
