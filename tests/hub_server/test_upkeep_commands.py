"""`strop hub migrate`, `backup`, `restore` and `verify` as operators run them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from strop.errors import ConfigError
from strop_hub import admin, migration
from strop_hub.db import Database, sqlite_url
from tests.factories import an_upload
from tests.hub_server import backends
from tests.hub_server.author import Author
from tests.hub_server.checking import check_whole, lose_blob
from tests.hub_server.running_hub import RunningHub, run_hub
from tests.sdk.cli.command import Finished, strop
from tests.servers.processes import free_ports
from tests.waiting import wait_until


def hub_command(data: Path, *arguments: str | Path) -> Finished:
    """A command about the hub over `data`, on the servers that it has."""
    given = backends.settings_for(data)
    variables: dict[str, Any] = {
        f"STROP_HUB_{name.upper()}": value for name, value in given.items()
    }
    return strop("hub", *arguments, "--data", data, **variables)


class Pusher:
    """An author who publishes one version after another."""

    def __init__(self, author: Author) -> None:
        self.author = author
        self.count = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._push_on)

    @contextmanager
    def pushing(self) -> Iterator[None]:
        """It goes on until the end of the block; the first version is there at its begin."""
        self._thread.start()
        try:
            wait_until(lambda: self.count)
            yield
        finally:
            self._is_over.set()
            self._thread.join()

    def _push_on(self) -> None:
        # A few a second are enough.
        while not self._is_over.wait(0.2):
            self.author.publish("busy", f"1.{self.count}")
            self.count += 1


def wheel_of(hub: RunningHub, owner: str) -> bytes:
    """The bytes of ``maze`` 1.0, as everybody gets them."""
    answer = hub.get(f"/owners/{owner}/files/maze/maze-1.0-py3-none-any.whl")
    assert answer.status_code == 200, answer.text
    return answer.content


def test_a_hub_is_backed_up_while_it_serves_and_restored_elsewhere(
    hub_data: Path, tmp_path: Path
) -> None:
    folder, restored = tmp_path / "backup", tmp_path / "restored"
    with run_hub(hub_data) as hub:
        author = Author.new(hub, tmp_path / "author")
        author.publish("maze", "1.0")
        pusher = Pusher(author)
        with pusher.pushing():
            before = pusher.count
            backup = hub_command(hub_data, "backup", folder, "--json")
            after = pusher.count
            wait_until(lambda: pusher.count > after)
        wheel = wheel_of(hub, author.owner)

    filled = hub_command(restored, "restore", folder)
    with run_hub(restored) as hub:
        served = wheel_of(hub, author.owner)
        upload = an_upload(tmp_path / "new", name="new", version="1.0")
        pushed = hub.push(author.token, author.owner, upload)
        verified = hub_command(restored, "verify", "--json")
        assert check_whole(hub.settings) == verified.document["version_count"]

    assert backup.code == 0, backup.stderr
    kept = backup.document["row_counts"]["versions"]
    # One more may be there than was known to be when the command ended.
    assert before + 1 <= kept <= after + 2
    assert filled.code == 0, filled.stderr
    assert "Restored from" in filled.stderr
    assert (served, pushed.status_code) == (wheel, 201)
    assert verified.code == 0, verified.stderr
    assert verified.document["differences"] == []
    assert verified.document["version_count"] == kept + 1


def test_backup_and_gc_refuse_a_database_that_holds_no_hub(hub_data: Path, tmp_path: Path) -> None:
    made = tmp_path / "made.sqlite3"
    backends.give(hub_data, {"database_url": sqlite_url(made)} | backends.settings_for(hub_data))
    folder = tmp_path / "backup"

    for command in (["backup", folder], ["gc"]):
        refused = hub_command(hub_data, *command, "--json")
        assert (refused.code, refused.error["code"]) == (1, "config"), refused.stderr
        assert "(STROP_HUB_DATABASE_URL). Name the right one, or make" in refused.error["message"]
        assert "strop hub init --admin NAME" in refused.error["message"]

    assert [path for path in (folder, hub_data, made) if path.exists()] == []


@pytest.mark.slow
def test_migrate_brings_a_hub_of_an_earlier_schema_up_and_verify_says_what_is_lost(
    hub_data: Path, tmp_path: Path
) -> None:
    with run_hub(hub_data) as hub:
        author = Author.new(hub, tmp_path / "author")
        (version,) = author.publish("maze", "1.0")
    database = Database.open(hub.settings.database)
    migration.downgrade(database, "-1")
    earlier = migration.current_revision(database)

    migrated = hub_command(hub_data, "migrate", "--json")
    revision = migration.current_revision(database)
    database.close()
    whole = hub_command(hub_data, "verify")
    lose_blob(hub.settings, version["digest"])
    lacking = hub_command(hub_data, "verify")

    assert migrated.code == 0, migrated.stderr
    assert migrated.document == {"revision": migration.latest_revision()}
    assert earlier != revision == migration.latest_revision()
    assert (whole.code, lacking.code) == (0, 1), whole.stderr + lacking.stderr
    assert "0 differences; 1 versions" in whole.stderr
    assert version["digest"] in lacking.stderr


def a_locked_role(url: str) -> str:
    """The URL of a database with a role that has a password, and another password."""
    database = url.rpartition("/")[2]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {database} LOGIN PASSWORD 'right'".encode())
        ((hba,),) = connection.execute("SHOW hba_file").fetchall()
        rules = Path(hba).read_text()
        Path(hba).write_text(f"host all {database} 127.0.0.1/32 scram-sha-256\n{rules}")
        connection.execute("SELECT pg_reload_conf()")
    return url.replace("hub@", f"{database}:s3cret@")


@pytest.mark.embedded
def test_a_postgresql_that_lets_nobody_in_is_named_with_what_to_do(
    hub_data: Path, tmp_path: Path
) -> None:
    url = backends.postgres().new_database()
    port, (closed,) = backends.postgres().port, free_ports(1)
    locked = a_locked_role(url)
    unreachable = url.replace(f":{port}", f":{closed}")
    for given, command, told in (
        (unreachable, ["serve", "--port", "0"], "Connection refused. See that the server runs"),
        (unreachable, ["backup", tmp_path / "backup"], "Connection refused. See that the server"),
        (f"{url}_none", ["migrate"], "does not exist. Create it"),
        (locked, ["gc"], "password authentication failed for user"),
    ):
        backends.give(hub_data, {"database_url": given})

        refused = hub_command(hub_data, *command, "--json")

        assert (refused.code, refused.error["code"]) == (1, "config"), refused.stderr
        message = refused.error["message"]
        assert told in message
        place = f"PostgreSQL at 127.0.0.1:{closed if given == unreachable else port} "
        assert f"the database {given.rpartition('/')[2]} of the {place}" in message
        assert "STROP_HUB_DATABASE_URL" in message
        assert "\n" not in message
        assert "s3cret" not in refused.stdout + refused.stderr


@pytest.mark.embedded
def test_a_postgresql_that_is_lost_under_a_command_is_named(hub_data: Path) -> None:
    url = backends.postgres().new_database()
    backends.give(hub_data, {"database_url": url})

    def look_twice() -> None:
        with (
            admin.open_hub(backends.settings_of(hub_data)) as hub,
            hub.database.read() as session,
        ):
            session.execute(text("SELECT 1"))
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            session.execute(text("SELECT 1"))

    with pytest.raises(ConfigError, match=r"the connection|terminating connection"):
        look_twice()
