"""pip and uv heed what a hub says about versions and projects: yanks, and PEP 792's status."""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.hub_server.author import API, Author
from tests.hub_server.index.test_installers import UV, run

STATUSES = {"deprecated": "use labyrinth", "archived": "done", "quarantined": "steals secrets"}
CLIENTS = {
    "pip": [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-cache-dir",
        "--disable-pip-version-check",
    ],
    "uv": [UV, "pip", "install", "--no-cache", "--no-config", "--python", sys.executable],
}
DAILY_AND_SLOW = ["uv", pytest.param("pip", marks=pytest.mark.slow)]


def install(client: str, author: Author, target: Path, *wanted: str) -> tuple[list[str], str]:
    """Install from the author's index; gives what is there afterwards, and all that was printed."""
    index = f"{author.hub.url}/owners/{author.owner}/simple/"
    options = ["--no-deps", "--index-url", index, "--target", str(target)]
    finished = run(*CLIENTS[client], *options, *wanted)
    folders = sorted(path.name.removesuffix(".dist-info") for path in target.glob("*.dist-info"))
    assert (finished.returncode == 0) == bool(folders), finished.stderr
    return folders, finished.stdout + finished.stderr


def set_status(author: Author, name: str, status: str, reason: str) -> None:
    # Quarantine is an administrator's; the rest is an owner's.
    token = author.hub.admin_token if status == "quarantined" else author.token
    with author.hub.client(token) as client:
        path = f"{API}/{author.owner}/{name}/status"
        response = client.put(path, json={"status": status, "reason": reason})
    assert response.status_code == 200, response.text


@pytest.mark.parametrize("client", DAILY_AND_SLOW)
def test_a_range_passes_over_a_yank_and_a_pin_takes_it_with_its_reason(
    author: Author, name: str, tmp_path: Path, client: str
) -> None:
    author.publish(name, "1.0", "1.1")
    author.yank(name, "1.1", "leaky <grader>")
    stem = name.replace("-", "_")

    in_range, told = install(client, author, tmp_path / "a", f"{name}>=1.0,<2")
    pinned, warned = install(client, author, tmp_path / "b", f"{name}==1.1")

    assert (in_range, pinned) == ([f"{stem}-1.0"], [f"{stem}-1.1"])
    assert "leaky <grader>" not in told
    assert "leaky <grader>" in warned


@pytest.mark.parametrize("client", DAILY_AND_SLOW)
def test_what_is_deprecated_or_archived_installs_and_what_is_quarantined_does_not(
    author: Author, name: str, tmp_path: Path, client: str
) -> None:
    for status, reason in STATUSES.items():
        author.publish(f"{name}-{status}", files={f"{status}.py": "X = 1\n"})
        set_status(author, f"{name}-{status}", status, reason)
    stem = name.replace("-", "_")

    installed, _ = install(client, author, tmp_path / "a", f"{name}-deprecated", f"{name}-archived")
    refused, told = install(client, author, tmp_path / "b", f"{name}-quarantined==0.1.0")

    assert installed == [f"{stem}_archived-0.1.0", f"{stem}_deprecated-0.1.0"]
    assert refused == []
    assert f"{name}-quarantined==0.1.0" in told


@contextmanager
def no_known_vulnerabilities() -> Iterator[str]:
    """The address of a database of vulnerabilities that knows none. Source: OSV API, v1."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            body = json.dumps({"results": [{} for _ in asked["queries"]]}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def test_uv_tells_the_status_of_what_is_locked_with_its_reason(
    author: Author, name: str, tmp_path: Path
) -> None:
    names = {status: f"{name}-{status}" for status in (*STATUSES, "active")}
    for each in names.values():
        author.publish(each, manifest={"requires-python": ">=3.11"})
    index = f"{author.hub.url}/owners/{author.owner}/simple/"
    (tmp_path / "pyproject.toml").write_text(
        f'[project]\nname = "user"\nversion = "1"\nrequires-python = ">=3.11"\n'
        f"dependencies = {list(names.values())}\n"
        f'[[tool.uv.index]]\nurl = "{index}"\ndefault = true\n'
    )
    locked = run(UV, "lock", "--no-cache", "--python", sys.executable, cwd=tmp_path)
    for status, reason in STATUSES.items():
        set_status(author, names[status], status, reason)

    with no_known_vulnerabilities() as service:
        command = [UV, "audit", "--frozen", "--no-cache", "--service-url", service]
        finished = run(*command, cwd=tmp_path)

    assert locked.returncode == 0, locked.stderr
    told = finished.stdout + finished.stderr
    for status, reason in STATUSES.items():
        assert names[status] in told, told
        assert f"is {status}" in told, told
        assert reason in told, told
    assert names["active"] not in told, told
