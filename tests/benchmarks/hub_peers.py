"""Other indexes under the same requests: pypiserver, devpi-server, and nginx as the limit."""

from __future__ import annotations

import base64
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.benchmarks.peers import python_with

_PYPISERVER, _DEVPI = "pypiserver==2.4.2", "devpi-server==6.20.3"
_START_S = 120
_STOP_S = 30


@dataclass(frozen=True, slots=True)
class PeerIndex:
    """A running index that holds some wheels of the project ``maze``."""

    process_id: int
    url: str
    page: str
    """Path of the project's page."""
    file: str
    """Path of the first wheel."""
    upload: str | None = None
    """Path of the upload form; None where nothing can be uploaded."""
    headers: dict[str, str] = field(default_factory=dict)


@contextmanager
def pypiserver(folder: Path, wheels: list[Path]) -> Iterator[PeerIndex]:
    """As it runs by default, without accounts."""
    packages = folder / "packages"
    packages.mkdir()
    for wheel in wheels:
        shutil.copy(wheel, packages)
    port = _free_port()
    command = [str(python_with(_PYPISERVER).with_name("pypi-server")), "run", "-p", str(port)]
    command += ["-i", "127.0.0.1", "-P", ".", "-a", ".", "--disable-fallback", str(packages)]
    with _running(command, port) as process_id:
        url = f"http://127.0.0.1:{port}"
        yield PeerIndex(process_id, url, "/simple/maze/", f"/packages/{wheels[0].name}", "/")


@contextmanager
def devpi(folder: Path, wheels: list[Path]) -> Iterator[PeerIndex]:
    """As it runs by default, with one user and one index that mirrors nothing."""
    python, port = python_with(_DEVPI), _free_port()
    server_folder = str(folder / "devpi")
    initialise = [str(python.with_name("devpi-init")), "--serverdir", server_folder]
    subprocess.run([*initialise, "--no-root-pypi"], check=True, stdout=subprocess.DEVNULL)
    command = [str(python.with_name("devpi-server")), "--serverdir", server_folder]
    with _running([*command, "--port", str(port)], port) as process_id:
        url = f"http://127.0.0.1:{port}"
        headers = _make_devpi_index(url)
        for wheel in wheels:
            send(url + "/ada/dev/", wheel, headers)
        accept = {"accept": "application/vnd.pypi.simple.v1+json"}
        listed = httpx.get(url + "/ada/dev/+simple/maze/", headers=accept).json()["files"]
        address = next(file["url"] for file in listed if file["filename"] == wheels[0].name)
        path = httpx.URL(url + "/ada/dev/+simple/maze/").join(address.partition("#")[0]).path
        yield PeerIndex(process_id, url, "/ada/dev/+simple/maze/", path, "/ada/dev/", headers)


@contextmanager
def nginx(folder: Path, wheels: list[Path]) -> Iterator[PeerIndex]:
    """A page and a wheel as files: what a server in C needs that thinks nothing."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        raise FileNotFoundError("nginx is not installed (Debian: apt install nginx)")
    root = folder / "root" / "simple" / "maze"
    root.mkdir(parents=True)
    links = "".join(f'<a href="{wheel.name}">{wheel.name}</a>\n' for wheel in wheels)
    (root / "index.html").write_text(f"<!DOCTYPE html>\n{links}")
    for wheel in wheels:
        shutil.copy(wheel, root)
    port = _free_port()
    settings = folder / "nginx.conf"
    settings.write_text(
        f"daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;\n"
        + ("user root;\n" if folder.owner() == "root" else "")
        + "events {}\nhttp { access_log off; sendfile on; keepalive_requests 1000000;\n"
        + "".join(
            f"{kind}_temp_path {folder}/{kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        + f"server {{ listen 127.0.0.1:{port}; root {folder}/root; }} }}\n"
    )
    with _running([program, "-p", str(folder), "-c", str(settings)], port) as process_id:
        url = f"http://127.0.0.1:{port}"
        yield PeerIndex(process_id, url, "/simple/maze/", f"/simple/maze/{wheels[0].name}")


Start = Callable[[Path, list[Path]], Any]
INDEXES: dict[str, Start] = {"pypiserver": pypiserver, "devpi": devpi, "nginx": nginx}
UPLOADS: dict[str, Start] = {"pypiserver": pypiserver, "devpi": devpi}


def through_peers(
    starts: dict[str, Start],
    folder: Path,
    wheels: list[Path],
    measure: Callable[[PeerIndex], float],
) -> dict[str, float | None]:
    """CPU milliseconds a request by key; None, and why in words, for a peer that does not run."""
    result: dict[str, float | None] = {}
    for name, start in starts.items():
        own = folder / name
        own.mkdir()
        try:
            with start(own, wheels) as peer:
                result[f"{name}_cpu_ms"] = round(measure(peer), 4)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"{name} cannot be measured here: {error}")
            result[f"{name}_cpu_ms"] = None
    return result


def send(address: str, wheel: Path, headers: dict[str, str]) -> None:
    """Upload a wheel as packaging clients do."""
    name, version = wheel.name.split("-")[:2]
    fields = {
        ":action": "file_upload",
        "protocol_version": "1",
        "metadata_version": "2.1",
        "name": name,
        "version": version,
        "filetype": "bdist_wheel",
        "pyversion": "py3",
    }
    files = {"content": (wheel.name, wheel.read_bytes(), "application/octet-stream")}
    answer = httpx.post(address, data=fields, files=files, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text[:300]


def _make_devpi_index(url: str) -> dict[str, str]:
    """A user and an index; gives the headers of an upload."""
    secret = "only-on-loopback"
    user = {"password": secret, "email": "ada@example.org"}
    httpx.put(url + "/ada", json=user).raise_for_status()
    login = httpx.post(url + "/+login", json={"user": "ada", "password": secret})
    token = login.raise_for_status().json()["result"]["password"]
    headers = {"x-devpi-auth": base64.b64encode(f"ada:{token}".encode()).decode()}
    index = {"type": "stage", "bases": []}
    httpx.put(url + "/ada/dev", json=index, headers=headers).raise_for_status()
    return headers


@contextmanager
def _running(command: list[str], port: int) -> Iterator[int]:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, **quiet)  # type: ignore[call-overload]
    try:
        _wait_for(process, port)
        yield process.pid
    finally:
        process.terminate()
        process.wait(_STOP_S)


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise ConnectionError(f"{process.args!r} did not start")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
