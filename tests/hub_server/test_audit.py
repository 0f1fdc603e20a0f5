"""What people do to the hub is noted, and what they are refused as well."""

from pathlib import Path

from sqlalchemy import select

from strop_hub import admin
from strop_hub.models import AuditLine, Event
from tests.factories import an_upload
from tests.hub_server.running_hub import RunningHub, run_hub


def lines(hub: RunningHub) -> list[tuple[str | None, str, str]]:
    with admin.open_hub(hub.settings) as parts, parts.database.read() as session:
        rows = session.scalars(select(AuditLine).order_by(AuditLine.id)).all()
        return [(row.user_name, row.action, row.code) for row in rows if row.address != "operator"]


def test_acts_and_refusals_are_noted_with_who_and_why(hub_data: Path, tmp_path: Path) -> None:
    with run_hub(hub_data) as hub:
        owner, token = hub.new_user()
        first, other = an_upload(tmp_path), an_upload(tmp_path / "2", tree={"a.py": ""})
        path = f"/api/v1/environments/{owner}/maze/versions/0.1.0/yank"
        with hub.client(token) as client:
            hub.push(token, owner, first)
            hub.push(token, owner, first)
            hub.push(token, owner, other)
            hub.push(None, owner, first)
            hub.push("wrong", owner, first)
            client.post(path, json={})
            client.post(path, json={})
            client.delete(path)

        noted = lines(hub)

    assert noted == [
        (owner, "publish", "ok"),
        (owner, "publish", "version_exists"),
        (None, "publish", "token_missing"),
        (None, "publish", "token_invalid"),
        (owner, "yank", "ok"),
        (owner, "unyank", "ok"),
    ]


def test_a_line_tells_the_request_and_the_token_but_not_its_secret(
    hub: RunningHub, tmp_path: Path
) -> None:
    owner, token = hub.new_user()
    request_id = hub.push(token, owner, an_upload(tmp_path)).headers["x-request-id"]

    with admin.open_hub(hub.settings) as parts, parts.database.read() as session:
        line = session.scalars(select(AuditLine).where(AuditLine.request_id == request_id)).one()

    assert line.target == f"{owner}/maze@0.1.0"
    assert line.address == "127.0.0.1"
    assert line.token_prefix == token[:12]
    assert token not in str(vars(line))


def test_the_feed_counts_private_changes_apart(hub_data: Path, tmp_path: Path) -> None:
    with run_hub(hub_data) as hub:
        owner, token = hub.new_user()
        for name, visibility in (("a", "public"), ("b", "private"), ("c", "public")):
            hub.push(token, owner, an_upload(tmp_path, name=name), visibility=visibility)

        with admin.open_hub(hub.settings) as parts, parts.database.read() as session:
            events = session.scalars(select(Event).order_by(Event.id)).all()

    assert [(event.serial, event.public_serial) for event in events] == [(1, 1), (2, None), (3, 2)]
    assert {event.action for event in events} == {"publish"}
    assert {event.version for event in events} == {"0.1.0"}
