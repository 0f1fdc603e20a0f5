"""One function owns a writing transaction: it commits, tries again, or leaves nothing."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from strop_hub.audit.feed import next_values
from strop_hub.db import WRITE_TRIES, Base, Database, after_commit, sqlite_url
from strop_hub.errors import StorageUnavailableError
from strop_hub.models import Counter, Owner, OwnerKind


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database.open(sqlite_url(tmp_path / "hub.sqlite3"))
    Base.metadata.create_all(database.engine)
    yield database
    database.close()


def an_owner(name: str = "ada", **values: object) -> Owner:
    return Owner(name=name, kind=OwnerKind.PERSON, **values)


def count(database: Database) -> int:
    with database.read() as session:
        return session.scalar(select(func.count()).select_from(Owner)) or 0


def test_what_a_write_returns_is_committed(database: Database) -> None:
    def write(session: Session) -> str:
        session.add(an_owner())
        return "written"

    assert database.write(write) == "written"
    assert count(database) == 1


def test_a_write_that_raises_leaves_nothing_and_runs_no_hook(database: Database) -> None:
    ran: list[str] = []

    def write(session: Session) -> None:
        after_commit(session, lambda: ran.append("hook"))
        session.add(an_owner())
        session.flush()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        database.write(write)

    assert count(database) == 0
    assert ran == []


def test_hooks_and_listeners_run_after_the_commit_and_cannot_undo_it(database: Database) -> None:
    seen: list[int] = []

    def write(session: Session) -> None:
        session.add(an_owner())
        after_commit(session, lambda: seen.append(count(database)))
        after_commit(session, lambda: 1 / 0)  # type: ignore[arg-type]

    database.listeners.append(lambda: seen.append(-1))
    database.write(write)

    assert seen == [1, -1]


def test_a_unique_name_taken_meanwhile_runs_the_whole_function_again(database: Database) -> None:
    tries: list[int] = []

    def write(session: Session) -> str:
        tries.append(1)
        if len(tries) == 1:
            # As when another process takes the name between the look and the insert.
            raise IntegrityError("INSERT", {}, Exception("UNIQUE constraint failed"))
        session.add(an_owner())
        return "second"

    assert database.write(write) == "second"
    assert len(tries) == 2
    assert count(database) == 1


def test_tries_are_bounded(database: Database) -> None:
    database.write(lambda session: session.add(an_owner()))
    tries: list[int] = []

    def write(session: Session) -> None:
        tries.append(1)
        session.add(an_owner())

    with pytest.raises(IntegrityError):
        database.write(write)

    assert len(tries) == WRITE_TRIES


def test_a_fault_that_another_try_cannot_mend_is_not_repeated(database: Database) -> None:
    tries: list[int] = []

    def write(session: Session) -> None:
        tries.append(1)
        session.execute(text("SELECT * FROM nothing_like_it"))

    with pytest.raises(StorageUnavailableError, match="nothing_like_it"):
        database.write(write)

    assert len(tries) == 1


def test_writers_of_several_processes_and_threads_never_lock_each_other_out(
    tmp_path: Path, database: Database
) -> None:
    other = Database.open(sqlite_url(tmp_path / "hub.sqlite3"))
    values: list[int] = []

    def write_often(target: Database) -> None:
        for _ in range(25):
            values.append(target.write(lambda session: next_values(session, ["serial"])["serial"]))

    threads = [
        threading.Thread(target=write_often, args=(target,))
        for target in (database, other, database, other)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()

    assert sorted(values) == list(range(1, 101))


def test_a_number_that_was_rolled_back_is_given_again(database: Database) -> None:
    def raise_it(session: Session) -> None:
        next_values(session, ["serial"])["serial"]
        raise ValueError

    database.write(lambda session: next_values(session, ["serial"])["serial"])
    with pytest.raises(ValueError, match=r"^$"):
        database.write(raise_it)

    assert database.write(lambda session: next_values(session, ["serial"])["serial"]) == 2
    with database.read() as session:
        assert session.get_one(Counter, "serial").value == 2


def test_a_reader_keeps_its_snapshot_while_others_write(database: Database) -> None:
    with database.read() as session:
        assert session.scalars(select(Owner)).all() == []
        database.write(lambda writing: writing.add(an_owner()))

        assert session.scalars(select(Owner)).all() == []
    assert count(database) == 1


def test_times_come_back_aware_and_in_utc(database: Database) -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    database.write(lambda session: session.add(an_owner(created_at=noon)))

    with database.read() as session:
        found = session.scalars(select(Owner)).one().created_at

    assert found == noon
    assert found.tzinfo is UTC


def test_a_time_without_zone_is_refused(database: Database) -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001 - what this test is about

    with pytest.raises(Exception, match="no time zone"):
        database.write(lambda session: session.add(an_owner(created_at=naive)))


def test_sqlite_is_durable_and_holds_references(database: Database) -> None:
    with database.engine.connect() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }

    assert pragmas == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 30_000,
    }
