"""What authors report about the checks of their versions: kept, shown, and never trusted."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from strop_hub import admin
from strop_hub.checks.service import MAX_REPORTS
from strop_hub.models import AuditLine, VersionCheck
from strop_hub.upkeep.dump import back_up, restore
from strop_hub.upkeep.mirror import mirror
from strop_hub.upkeep.verify import verify
from tests.hub_server import backends
from tests.hub_server.author import API, Author
from tests.hub_server.checks.report import a_finding, a_report
from tests.hub_server.running_hub import RunningHub, run_hub


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    return Author.new(hub, tmp_path)


@pytest.fixture
def digest(author: Author) -> str:
    """Of the wheel of ``maze@0.1.0``."""
    (version,) = author.publish("maze")
    return str(version["digest"])


def send(author: Author, body: Any, version: str = "0.1.0") -> httpx.Response:
    """A report by the author, whose body may be bytes."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    with author.hub.client(author.token) as client:
        path = f"{API}/{author.owner}/maze/versions/{version}/checks"
        return client.post(path, content=content, headers={"content-type": "application/json"})


def shown(author: Author, rest: str = "/versions/0.1.0") -> Any:
    return author.hub.get(f"{API}/{author.owner}/maze{rest}").json()


def test_a_report_is_shown_with_the_version_and_with_who_sent_it(
    author: Author, digest: str
) -> None:
    assert shown(author)["check"] is None
    assert shown(author, "/versions/0.1.0/checks") == {"items": []}

    response = send(author, a_report(digest))

    assert response.status_code == 200, response.text
    check = shown(author)["check"]
    assert response.json() == check == shown(author, "/versions/0.1.0/checks")["items"][0]
    assert shown(author, "")["latest"]["check"] == check
    sent = a_report(digest)
    assert {key: check[key] for key in ("digest", "strop_version", "measures")} == {
        key: sent[key] for key in ("digest", "strop_version", "measures")
    }
    assert [each["message"] for each in check["findings"]] == [
        each["message"] for each in sent["findings"]
    ]
    assert check["findings"][1]["reward"] == 1
    assert (check["is_ok"], check["reported_by"]) == (True, author.owner)
    assert check["checked_at"] == "2026-03-01T12:30:00Z"


def test_the_hub_counts_for_itself_what_failed(author: Author, digest: str) -> None:
    findings = [a_finding("loads"), a_finding("fuzz", "failed")]

    response = send(author, a_report(digest, findings=findings, is_ok=True))

    assert response.json()["is_ok"] is False


def test_the_newest_report_counts_and_the_same_again_changes_nothing(
    author: Author, digest: str
) -> None:
    first, second = (a_report(digest, checked_at=f"2026-03-0{day}T00:00:00Z") for day in (1, 2))
    for report in (first, second, second, first):
        assert send(author, report).status_code == 200

    items = shown(author, "/versions/0.1.0/checks")["items"]
    assert [item["checked_at"][:10] for item in items] == ["2026-03-01", "2026-03-02", "2026-03-01"]
    assert shown(author)["check"] == items[0]


def test_the_oldest_reports_go_and_those_of_other_versions_stay(
    author: Author, digest: str
) -> None:
    (other,) = author.publish("maze", "0.2.0")
    assert send(author, a_report(other["digest"]), "0.2.0").status_code == 200

    for number in range(MAX_REPORTS + 3):
        report = a_report(digest, measures={"number": float(number)})
        assert send(author, report).status_code == 200

    items = shown(author, "/versions/0.1.0/checks")["items"]
    assert [item["measures"]["number"] for item in items] == [
        float(number) for number in reversed(range(3, MAX_REPORTS + 3))
    ]
    assert len(shown(author, "/versions/0.2.0/checks")["items"]) == 1


def test_a_report_about_another_wheel_is_refused(author: Author, digest: str) -> None:
    (other,) = author.publish("maze", "0.2.0")

    response = send(author, a_report(other["digest"]))

    assert (response.status_code, response.json()["code"]) == (409, "conflict")
    assert digest in response.json()["detail"]
    assert shown(author)["check"] is None


def test_a_report_neither_renews_the_environment_nor_changes_the_latest_version(
    author: Author, digest: str
) -> None:
    before = shown(author, "")

    send(author, a_report(digest))

    after = shown(author, "")
    assert {**after, "latest": None} == {**before, "latest": None}
    assert {**after["latest"], "check": None} == before["latest"]


def test_a_report_is_in_the_feed_and_in_the_audit_trail(author: Author, digest: str) -> None:
    send(author, a_report(digest))
    send(author, a_report("0" * 64))

    changes = author.hub.get("/api/v1/changes?limit=1000").json()["items"]
    assert [each["action"] for each in changes if each["owner"] == author.owner] == [
        "publish",
        "check",
    ]
    with admin.open_hub(author.hub.settings) as hub, hub.database.read() as session:
        lines = session.scalars(
            select(AuditLine).where(AuditLine.user_name == author.owner).order_by(AuditLine.id)
        ).all()
    assert [(line.action, line.code) for line in lines[-2:]] == [
        ("check", "ok"),
        ("check", "conflict"),
    ]
    assert lines[-2].target == f"{author.owner}/maze@0.1.0"


LONG = "x" * 1001
REFUSED: dict[str, dict[str, Any]] = {
    "no finding": {"findings": []},
    "too many findings": {"findings": [a_finding()] * 65},
    "a long message": {"findings": [a_finding(message=LONG)]},
    "markup for a name": {"findings": [a_finding("<b>")]},
    "another verdict": {"findings": [a_finding(verdict="perfect")]},
    "a reward that is text": {"findings": [a_finding(reward="1")]},
    "a message that is none": {"findings": [a_finding(message=["x"])]},
    "a digest that is none": {"digest": "z" * 64},
    "a long version": {"strop_version": "1" * 65},
    "a version with markup": {"strop_version": "<i>1"},
    "no version of Python": {"python_version": "3.x"},
    "a time without a zone": {"checked_at": "2026-03-01T12:00:00"},
    "a number for a time": {"checked_at": 1_700_000_000},
    "a time to come": {"checked_at": "2999-01-01T00:00:00Z"},
    "measures of text": {"measures": {"import_cpu_s": "fast"}},
    "a measure that is yes": {"measures": {"import_cpu_s": True}},
    "names of measures": {"measures": {"<script>": 1.0}},
    "many measures": {"measures": {f"m{number}": 1.0 for number in range(33)}},
    "measures that are a list": {"measures": []},
}


def test_what_is_no_report_is_refused(author: Author, digest: str) -> None:
    for case, given in REFUSED.items():
        response = send(author, a_report(digest) | given)
        assert (response.status_code, response.json()["code"]) == (422, "invalid_request"), case

    assert shown(author, "/versions/0.1.0/checks")["items"] == []


ODD_WORDS = [
    ("0.254", "NaN"),
    ("0.254", "Infinity"),
    ("0.254", "1e999"),
    ('"It is ok."', '"\\ud800"'),
]


def test_what_json_can_say_and_a_report_must_not_is_refused(author: Author, digest: str) -> None:
    text = json.dumps(a_report(digest))
    for was, now in ODD_WORDS:
        assert was in text
        response = send(author, text.replace(was, now, 1).encode())
        assert response.status_code == 422, now

    assert shown(author, "/versions/0.1.0/checks")["items"] == []


def test_a_time_at_the_end_of_all_calendars_breaks_no_page(author: Author, digest: str) -> None:
    report = a_report(digest, checked_at="0001-01-01T00:00:00+14:00")

    assert send(author, report).status_code == 200
    assert author.hub.get(f"/{author.owner}/maze").status_code == 200
    assert shown(author)["check"]["checked_at"].startswith("0001-01-01")


def test_a_report_is_bounded_as_it_is_stored(author: Author, digest: str) -> None:
    findings = [a_finding(message="\u2028" * 1000) for _ in range(20)]

    response = send(author, a_report(digest, findings=findings))

    assert (response.status_code, response.json()["code"]) == (413, "too_large")
    assert send(author, a_report(digest, findings=findings[:8])).status_code == 200


def test_odd_text_comes_back_as_it_was(author: Author, digest: str) -> None:
    message = "<script>alert(1)</script> \x00 \u202e\U0001f600 {{ 7*7 }}"

    send(author, a_report(digest, findings=[a_finding(message=message)]))

    assert shown(author)["check"]["findings"][0]["message"] == message
    page = author.hub.get(f"/{author.owner}/maze").text
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "{{ 7*7 }}" in page


def test_deleting_a_version_deletes_what_was_reported_of_it(author: Author, digest: str) -> None:
    author.publish("maze", "0.2.0")
    send(author, a_report(digest, findings=[a_finding(message=author.owner)]))
    with author.hub.client(author.hub.admin_token) as client:
        path = f"{API}/{author.owner}/maze/versions/0.1.0"
        assert client.delete(path).status_code == 204
        assert client.get(f"{path}/checks").status_code == 404

    with admin.open_hub(author.hub.settings) as hub, hub.database.read() as session:
        texts = session.scalars(select(VersionCheck.report_json)).all()
    assert not [text for text in texts if author.owner in text]


@pytest.mark.embedded
def test_a_mirror_takes_over_the_newest_report(hub_data: Path, tmp_path: Path) -> None:
    here = backends.settings_of(tmp_path / "here")
    admin.init(here, "grace", with_sdk=False)
    with run_hub(hub_data) as there:
        author = Author.new(there, tmp_path / "packages")
        (version,) = author.publish("maze")
        send(author, a_report(version["digest"]))
        for _ in range(2):
            with admin.open_hub(here) as hub:
                assert mirror(hub, there.url, "far").skipped == []
        send(author, a_report(version["digest"], python_version="3.14.0"))
        with admin.open_hub(here) as hub:
            assert mirror(hub, there.url, "far").followed_count == 1
    with run_hub(here.data, "grace") as mirrored:
        path = f"{API}/far-{author.owner}/maze/versions/0.1.0/checks"
        items = mirrored.get(path).json()["items"]
    assert [item["python_version"] for item in items] == ["3.14.0", "3.11.7"]
    assert {item["reported_by"] for item in items} == {"grace"}


def test_a_backup_carries_the_reports_to_another_hub(hub_data: Path, tmp_path: Path) -> None:
    with run_hub(hub_data) as hub:
        author = Author.new(hub, tmp_path / "packages")
        (version,) = author.publish("maze")
        send(author, a_report(version["digest"]))
        send(author, a_report(version["digest"], python_version="3.14.0"))
        before = shown(author, "/versions/0.1.0/checks")
        with admin.open_hub(hub.settings) as parts:
            back_up(parts, tmp_path / "backup")
    other = tmp_path / "other"
    settings = backends.settings_of(other)
    with admin.open_hub(settings) as parts:
        restore(parts, tmp_path / "backup")
        assert verify(parts).differences == []
    with run_hub(other) as hub:
        path = f"{API}/{author.owner}/maze/versions/0.1.0/checks"
        assert hub.get(path).json() == before
        again = Author(hub, tmp_path, author.owner, author.token)
        assert send(again, a_report(version["digest"])).status_code == 200
