"""Follow the change feed of another hub: its public environments, under owners of one's own.

What ``ada`` publishes there is published here as ``<prefix>-ada``, with the same bytes. How far the
feed was followed lies in the data folder, so that an interrupted mirror goes on where it was.
"""

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from strop.errors import ConfigError, HubRefusedError, HubUnreachableError
from strop.hub.client import HubClient
from strop.hub.refs import normalize_name
from strop.hub.wire import API_PREFIX, Change, ChangePage
from strop_hub.errors import HubError, NotFoundError
from strop_hub.hub import Hub
from strop_hub.legacy.attestation import check_trusted_root
from strop_hub.publish.rules import SDK_NAME
from strop_hub.upkeep.following import Followed, follow

NOT_FOUND = 404

OWN_FAULT = 500
"""Refusals from here on are no verdict on what came: a run ends with them."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Mirrored:
    """What a run did."""

    followed_count: int = 0
    """Events whose like was done here."""
    serial: int = 0
    """Up to which the feed was followed."""
    skipped: list[str] = field(default_factory=list)
    """Versions that this hub refuses, with the cause."""
    attestations_left_out: list[str] = field(default_factory=list)
    """Files that were taken without their attestations, with the cause."""


def mirror(hub: Hub, url: str, prefix: str) -> Mirrored:
    """Take over what has happened on the hub at `url` since the last run; then return.

    Raises:
        HubUnreachableError: It does not answer; the next run goes on from there.
        HubRefusedError: It cannot give what came now; the next run goes on from there.
        HubError: This hub cannot take what came, for a cause of its own.
        ConfigError: Its roots of trust for attestations are none, or there is no hub at `url`.
    """
    check_trusted_root(hub.settings.attestation_trusted_root)
    state = hub.settings.data / "mirrors" / f"{normalize_name(prefix)}.json"
    result = Mirrored(serial=_read_state(state, url))
    with HubClient(url) as client:
        for change in _changes(url, result.serial):
            _follow(hub, client, prefix, change, result)
            result.serial = change.serial
            _write_state(state, url, change.serial)
    return result


def _changes(url: str, since: int) -> Iterator[Change]:
    with httpx.Client(base_url=url, timeout=60) as client:
        while True:
            try:
                answer = client.get(f"{API_PREFIX}/changes", params={"since": since})
                answer.raise_for_status()
                page = ChangePage.model_validate_json(answer.content)
            except (httpx.HTTPError, ValueError) as error:
                if _is_no_hub(error):
                    raise ConfigError(
                        f"there is no hub at {url}: it knows no {API_PREFIX}/changes. Give a "
                        "hub's own address, or --simple where it is a simple index."
                    ) from error
                raise HubUnreachableError(
                    f"the change feed of {url} cannot be read: {error}. "
                    "Run the same command again later; it goes on where it was."
                ) from error
            yield from page.items
            if not page.items or page.items[-1].serial >= page.last_serial:
                return
            since = page.items[-1].serial


def _is_no_hub(error: Exception) -> bool:
    return isinstance(error, httpx.HTTPStatusError) and error.response.status_code == NOT_FOUND


def _follow(hub: Hub, client: HubClient, prefix: str, change: Change, result: Mirrored) -> None:
    if change.owner == SDK_NAME:
        return
    name = f"{change.owner}/{change.name}" + (f"@{change.version}" if change.version else "")
    try:
        followed = Followed(hub, client, prefix, change, result.attestations_left_out)
        result.followed_count += follow(followed)
    except HubRefusedError as error:
        if error.status >= OWN_FAULT or error.status == httpx.codes.TOO_MANY_REQUESTS:
            # It says nothing about what the event is about; the next run asks again.
            raise
        # It was deleted there since; the feed tells so further on.
        logger.info("%s is not there", name)
    except NotFoundError:
        logger.info("%s never came here", name)
    except HubError as error:
        if error.status >= OWN_FAULT:
            raise
        result.skipped.append(f"{name}: {error.detail}")


def _read_state(state: Path, url: str) -> int:
    if not state.is_file():
        return 0
    document = json.loads(state.read_text())
    return int(document["serial"]) if document["url"] == url else 0


def _write_state(state: Path, url: str, serial: int) -> None:
    state.parent.mkdir(parents=True, exist_ok=True)
    beside = state.with_suffix(".new")
    beside.write_text(json.dumps({"url": url, "serial": serial}))
    beside.replace(state)
