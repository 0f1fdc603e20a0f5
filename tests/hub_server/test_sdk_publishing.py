"""Every hub serves the SDK that it runs with."""

from pathlib import Path

import httpx

from strop_hub import admin
from tests.hub_server import backends
from tests.hub_server.checking import check_whole
from tests.hub_server.running_hub import run_hub


def test_init_publishes_the_running_sdk_once(hub_data: Path) -> None:
    settings = backends.settings_of(hub_data)

    first = admin.init(settings, "root")
    again = admin.init(settings, "root")

    assert first.sdk_version is not None
    assert again.sdk_version == first.sdk_version
    assert again.warnings == first.warnings == []
    assert check_whole(settings) == 1
    with run_hub(hub_data) as hub:
        version = hub.get(f"/api/v1/environments/strop/strop/versions/{first.sdk_version}").json()
        assert version["kind"] == "foreign"
        assert hub.get("/simple/strop/").status_code == 200
        wheel = hub.get(httpx.URL(version["files"][0]["url"]).path)
        assert len(wheel.content) == version["size_bytes"]


def test_an_sdk_that_is_published_with_other_contents_is_told(hub_data: Path) -> None:
    from sqlalchemy import update

    from strop_hub.models import Version

    settings = backends.settings_of(hub_data)
    admin.init(settings, "root")
    with admin.open_hub(settings) as parts:
        parts.database.write(
            lambda session: session.execute(update(Version).values(digest="0" * 64))
        )

    result = admin.init(settings, "root")

    assert result.sdk_version is None
    assert "not published" in result.warnings[0]
