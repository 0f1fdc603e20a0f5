"""Downloads are counted in memory, and kept when the hub stops."""

from pathlib import Path

from sqlalchemy import select

from strop_hub.db import Database
from strop_hub.models import Environment, EnvironmentTerm
from tests.factories import an_upload
from tests.hub_server.running_hub import run_hub


def test_downloads_through_every_door_count_and_reads_of_metadata_do_not(
    hub_data: Path, tmp_path: Path
) -> None:
    upload = an_upload(tmp_path / "upload", name="maze", version="1.0")
    with run_hub(hub_data) as hub:
        owner, token = hub.new_user()
        pushed = hub.push(token, owner, upload).json()
        of_api = pushed["version"]["files"][0]["url"].removeprefix(hub.url)
        doors = (
            f"/owners/{owner}/files/maze/{upload.wheel.name}",
            f"/auth/owners/{owner}/files/maze/{upload.wheel.name}",
            of_api,
        )
        answers = [hub.get(door, token).status_code for door in doors]
        beside = hub.get(f"{doors[0]}.metadata").status_code
        hub.stop()

    assert (answers, beside) == ([200, 200, 200], 200)
    database = Database.open(hub.settings.database)
    with database.read() as session:
        assert session.scalar(select(Environment.download_count)) == 3
        weights = set(session.scalars(select(EnvironmentTerm.weight)))
    database.close()
    assert weights == {2}
