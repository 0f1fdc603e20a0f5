"""A disk that fills up while an author packs or pulls: named, and nothing half done is left."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from strop.hub.source import list_source, read_source_archive, tree_digest, write_source_archive
from tests.sdk.hub.environments import write_environment
from tests.sdk.loopback import HUB, reply, serve
from tests.sdk.test_download import CONTENT, PATH, a_file

LIMIT_BYTES = 200_000
"""No file can grow above it: to a program that looks the same as a full disk."""


def limited(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run `code` where no file can grow; Python ignores the signal and gets an error."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, LIMIT_BYTES)),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An environment with a file that does not fit, packed or not."""
    folder = write_environment(tmp_path / "maze")
    (folder / "maze_env" / "table.bin").write_bytes(os.urandom(3 * LIMIT_BYTES))
    return folder


PACK = """
import sys
from pathlib import Path
from strop.errors import StropError
from strop.hub.package import pack
try:
    pack(Path(sys.argv[1]), Path(sys.argv[2]), isolated=False)
except (StropError, OSError) as error:
    print(type(error).__name__, error)
"""


def test_packing_onto_a_full_disk_delivers_nothing_and_leaves_no_scratch(
    project: Path, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    before = tree_digest(project, list_source(project))

    finished = limited(
        f"import tempfile; tempfile.tempdir = {str(scratch)!r}\n" + PACK, project, tmp_path / "out"
    )

    assert finished.stdout.startswith("PackageError"), finished.stderr
    assert "table.bin" in finished.stdout
    assert list(scratch.iterdir()) == []
    assert not (tmp_path / "out").exists()
    assert tree_digest(project, list_source(project)) == before


def test_an_archive_that_does_not_fit_raises_and_is_never_taken_for_whole(
    project: Path, tmp_path: Path
) -> None:
    target = tmp_path / "maze.source.tar.gz"
    code = """
import sys
from pathlib import Path
from strop.hub.source import list_source, write_source_archive
folder, target = map(Path, sys.argv[1:])
try:
    write_source_archive(folder, list_source(folder), target)
except Exception as error:
    print(type(error).__name__)
"""

    finished = limited(code, project, target)

    assert finished.stdout.strip() in ("OSError", "PackageError"), finished.stderr
    with pytest.raises(Exception, match=r"maze\.source"):
        read_source_archive(target)


def test_a_tree_that_does_not_fit_is_unpacked_not_at_all(project: Path, tmp_path: Path) -> None:
    archive = tmp_path / "maze.source.tar.gz"
    write_source_archive(project, list_source(project), archive)
    target = tmp_path / "place" / "maze"
    code = """
import sys
from pathlib import Path
from strop.errors import PackageError
from strop.hub.source import extract_source_archive
try:
    extract_source_archive(Path(sys.argv[1]), Path(sys.argv[2]))
except PackageError as error:
    print(error)
"""

    finished = limited(code, archive, target)

    assert "cannot be unpacked to" in finished.stdout, finished.stderr
    assert list(target.parent.iterdir()) == []


DOWNLOAD = """
import sys
from pathlib import Path
from strop.hub.client import HubClient
from strop.hub.wire import PublishedFile
file = PublishedFile.model_validate_json(sys.argv[2])
try:
    with HubClient(sys.argv[1], attempt_count=2) as client:
        client.download(file, Path(sys.argv[3]))
except OSError as error:
    print("OSError", error.errno)
"""


def test_a_download_onto_a_full_disk_stops_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    with serve(lambda request: reply(200, CONTENT)) as server:
        finished = limited(
            DOWNLOAD, server.url, a_file().model_dump_json(), tmp_path / "new" / "maze.whl"
        )

        # A disk does not get emptier by asking again.
        assert len(server.requests) == 1
    assert finished.stdout.startswith("OSError"), finished.stderr
    assert list((tmp_path / "new").iterdir()) == []


def test_a_download_that_is_killed_leaves_one_part_and_the_next_one_succeeds(
    tmp_path: Path,
) -> None:
    target = tmp_path / "maze.whl"
    with serve(lambda request: reply(200, CONTENT[:300_000], length=len(CONTENT))) as server:
        code = DOWNLOAD.replace("except OSError", "import os\nexcept OSError").replace(
            "client.download(file, Path(sys.argv[3]))",
            "client.download(file, Path(sys.argv[3]), lambda a, b: os.kill(os.getpid(), 9))",
        )
        code = "import os\n" + code.replace("import os\nexcept", "except")
        killed = subprocess.run(
            [sys.executable, "-c", code, server.url, a_file().model_dump_json(), str(target)],
            check=False,
        )
    assert killed.returncode == -9
    assert not target.exists()
    (part,) = tmp_path.iterdir()
    assert part.name.endswith(".part")
    os.utime(part, (0, 0))

    with serve(lambda request: reply(200, CONTENT)) as server:
        finished = subprocess.run(
            [sys.executable, "-c", DOWNLOAD, server.url, a_file().model_dump_json(), str(target)],
            check=False,
        )

    assert finished.returncode == 0
    assert target.read_bytes() == CONTENT
    assert [each.name for each in tmp_path.iterdir()] == ["maze.whl"]


def test_the_command_tells_of_a_full_disk_and_exits_with_1(project: Path, tmp_path: Path) -> None:
    code = """
import sys
from strop.cli.app import main
main(sys.argv[1:])
"""

    finished = limited(
        code, "env", "build", project, "--out", tmp_path / "out", "--no-isolation", "--json"
    )

    assert finished.returncode == 1, finished.stderr
    assert json.loads(finished.stdout)["error"]["code"] == "package"
    assert "Traceback" not in finished.stderr
    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("status", [507, 413])
def test_a_hub_whose_disk_is_full_is_quoted(status: int, tmp_path: Path) -> None:
    problem = {"title": "x", "status": status, "detail": "The disk is full.", "code": "full"}

    with serve(lambda request: reply(status, problem, HUB)) as server:
        finished = limited(
            DOWNLOAD.replace("except OSError as error:", "except Exception as error:").replace(
                'print("OSError", error.errno)', "print(error)"
            ),
            server.url,
            a_file(f"{server.url}{PATH}").model_dump_json(),
            tmp_path / "maze.whl",
        )

    assert finished.stdout.startswith("The disk is full."), finished.stderr
