"""Which wheels are accepted, and what is known about them afterwards."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from strop.errors import ManifestError, PackageError
from strop.hub.archive import WheelFacts, check_wheel
from strop.hub.wire import VersionKind
from tests.sdk.hub.forged_zip import (
    DIST_INFO,
    METADATA,
    WHEEL_NAME,
    Part,
    forge,
    record_of,
    wheel_contents,
    wheel_parts,
    write,
)

ENTRY_POINTS = b"[strop.environments]\nmaze-env = maze_env:load_environment\n"
MANIFEST: dict[str, Any] = {
    "name": "maze-env",
    "version": "0.1.0",
    "summary": "Find the exit",
    "category": "logic",
    "reward-range": [0, 1],
    "deterministic": True,
    "sandbox": "none",
    "entry-point": "maze_env:load_environment",
}


def check(
    folder: Path, name: str = WHEEL_NAME, changes: Mapping[str, bytes | None] | None = None
) -> WheelFacts:
    return check_wheel(write(folder, forge(wheel_parts(wheel_contents(changes or {}))), name))


def strop_json(schema: Any = None, **changes: Any) -> bytes:
    document = {"schema_version": 1, "manifest": MANIFEST | changes, "settings_schema": schema}
    return json.dumps(document).encode()


def check_strop(
    folder: Path, name: str = WHEEL_NAME, changes: Mapping[str, bytes | None] | None = None
) -> WheelFacts:
    files: dict[str, bytes | None] = {
        "strop.json": strop_json(),
        "entry_points.txt": ENTRY_POINTS,
    }
    return check(folder, name, files | dict(changes or {}))


def test_a_plain_wheel_is_foreign_and_described_by_its_metadata(tmp_path: Path) -> None:
    facts = check(tmp_path)

    assert (facts.kind, facts.name, facts.version) == (VersionKind.FOREIGN, "maze-env", "0.1.0")
    assert facts.manifest.summary == "Find the exit"
    assert facts.manifest.reward_range is None
    assert (facts.readme, facts.metadata, facts.tags) == ("# Maze\n", METADATA, ("py3-none-any",))
    assert facts.sha256 == hashlib.sha256((tmp_path / WHEEL_NAME).read_bytes()).hexdigest()
    assert facts.size_bytes == (tmp_path / WHEEL_NAME).stat().st_size


def test_a_wheel_with_a_manifest_is_of_kind_strop(tmp_path: Path) -> None:
    facts = check_strop(tmp_path, changes={"strop.json": strop_json({"type": "object"})})

    assert facts.kind is VersionKind.STROP
    assert facts.manifest.category == "logic"
    assert facts.settings_schema == {"type": "object"}


def test_the_name_is_given_apart_for_files_in_staging(tmp_path: Path) -> None:
    staged = write(tmp_path, forge(wheel_parts(wheel_contents())), "upload-1")

    assert check_wheel(staged, filename=WHEEL_NAME).filename == WHEEL_NAME


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("maze_env.whl", "name-version-python-abi-platform"),
        ("maze_env-0.1.0-py3-none-any.zip", "name-version-python-abi-platform"),
        ("Maze.Env-0.1.0-py3-none-any.whl", "must be 'maze_env'"),
        ("other-0.1.0-py3-none-any.whl", "metadata folder other-0.1.0.dist-info"),
        ("maze_env-0.2.0-py3-none-any.whl", "metadata folder maze_env-0.2.0.dist-info"),
    ],
)
def test_a_wheel_of_another_name_is_refused(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(PackageError, match=message):
        check(tmp_path, name)


@pytest.mark.parametrize("part", ["METADATA", "WHEEL"])
def test_a_wheel_without_a_part_of_its_metadata_is_refused(tmp_path: Path, part: str) -> None:
    with pytest.raises(PackageError, match=f"has no {part}"):
        check(tmp_path, changes={part: None})


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (b"Metadata-Version: 9.9\nName: maze-env\nVersion: 0.1.0\n", "has version '9.9'"),
        (b"Metadata-Version: 2.1\nName: -\nVersion: 0.1.0\n", "no usable name"),
        (b"Metadata-Version: 2.1\nName: maze-env\nVersion: one\n", "no valid version: 'one'"),
        (METADATA.replace(b"Summary", b"Requires-Python: x\nSummary"), "invalid Requires-Python"),
        (METADATA.replace(b"maze-env", b"other"), "METADATA says other 0.1.0"),
        (METADATA.replace(b"0.1.0", b"0.1.1"), "METADATA says maze-env 0.1.1"),
        (
            METADATA.replace(b"2.1", b"2.4").replace(b"Summary", b"License-File: COPYING\nSummary"),
            "licence files 'COPYING'",
        ),
        (b"\xff", "has version None"),
    ],
)
def test_metadata_that_is_wrong_is_refused(tmp_path: Path, metadata: bytes, message: str) -> None:
    with pytest.raises(PackageError, match=message):
        check(tmp_path, changes={"METADATA": metadata})


def test_a_wheel_file_of_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="Wheel-Version"):
        check(tmp_path, changes={"WHEEL": b"Wheel-Version: 2.0\n"})


@pytest.mark.parametrize(
    "content", [b"x = 1\n", b"[a]\nx = 1\nx = 2\n", b"\xff", b"[strop.environments]\nno value\n"]
)
def test_entry_points_that_cannot_be_read_are_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(PackageError, match=r"entry_points\.txt cannot be read"):
        check(tmp_path, changes={"entry_points.txt": content})


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("maze_env-0.1.0.data/elsewhere/x", "elsewhere"),
        ("other-1.data/purelib/x", "other-1.data"),
        ("other-1.dist-info/METADATA", "exactly the metadata folder"),
    ],
)
def test_folders_that_no_installer_knows_are_refused(
    tmp_path: Path, path: str, message: str
) -> None:
    files = wheel_contents() | {path: b"x"}

    with pytest.raises(PackageError, match=message):
        check_wheel(write(tmp_path, forge(wheel_parts(files))))


GOOD_RECORD = record_of(wheel_contents())


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (GOOD_RECORD.replace(b"maze_env/__init__.py", b"gone.py"), "lists 'gone.py', which is not"),
        (b"\n".join(GOOD_RECORD.splitlines()[1:]), "no hash of 'maze_env/__init__.py'"),
        (GOOD_RECORD + GOOD_RECORD.splitlines()[0] + b"\n", "lists 'maze_env/__init__.py' twice"),
        (GOOD_RECORD.replace(b"sha256=", b"sha256=A", 1), "differs from its line"),
        (GOOD_RECORD.replace(b",28\n", b",29\n", 1), "differs from its line"),
        (GOOD_RECORD.replace(b"sha256=", b"md5=", 1), "hashes 'maze_env/__init__.py' with 'md5'"),
        (GOOD_RECORD.replace(b",28\n", b",x\n", 1), "cannot be read"),
        (GOOD_RECORD + b"a,b\n", "cannot be read"),
        (b"\xff", "RECORD cannot be read"),
        (b'"' + b"x" * 200_000, "RECORD cannot be read"),
    ],
)
def test_a_record_that_is_wrong_is_refused(tmp_path: Path, record: bytes, message: str) -> None:
    wheel = write(tmp_path, forge(wheel_parts(wheel_contents(), record)))

    with pytest.raises(PackageError, match=message):
        check_wheel(wheel)


def test_a_wheel_without_record_is_refused(tmp_path: Path) -> None:
    parts = [Part(path.encode(), content) for path, content in wheel_contents().items()]

    with pytest.raises(PackageError, match="has no RECORD"):
        check_wheel(write(tmp_path, forge(parts)))


def test_blank_lines_missing_sizes_and_signatures_are_no_fault(tmp_path: Path) -> None:
    record = GOOD_RECORD.replace(b",28\n", b",\n\n", 1)
    parts = [
        *wheel_parts(wheel_contents(), record),
        Part(f"{DIST_INFO}/RECORD.jws".encode(), b"{}"),
    ]

    assert check_wheel(write(tmp_path, forge(parts))).version == "0.1.0"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"summary": "Other"}, "`summary` is 'Other', but METADATA says 'Find the exit'"),
        ({"version": "0.1.1"}, "`version` is '0.1.1', but METADATA"),
        ({"requires-python": ">=3.11"}, "`requires-python` is '>=3.11', but METADATA says None"),
        ({"dependencies": ["httpx"]}, r"`dependencies` is \['httpx'\], but METADATA says \[\]"),
        ({"entry-point": "maze_env:other"}, "exactly the entry maze-env = maze_env:other"),
        ({"category": "maths"}, "`category` = 'maths'"),
        ({"extra": 1}, "`extra` is unknown"),
    ],
)
def test_a_manifest_that_contradicts_its_wheel_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ManifestError, match=message):
        check_strop(tmp_path, changes={"strop.json": strop_json(**changes)})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b"{", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b"[]", "must be an object"),
        (b'{"manifest": {}, "settings_schema": 1}', "must be an object"),
        (b'{"manifest": {}, "settings_schema": null}', "has schema version None"),
        (b" " * (1024 * 1024 + 1), "at most 1048576"),
    ],
)
def test_a_document_of_another_form_is_refused(
    tmp_path: Path, document: bytes, message: str
) -> None:
    with pytest.raises(ManifestError, match=message):
        check_strop(tmp_path, changes={"strop.json": document})


def test_all_problems_of_a_manifest_are_named_at_once(tmp_path: Path) -> None:
    document = strop_json(category="x", sandbox=1, tags=["Bad Tag"], **{"reward-range": [1, 0]})

    with pytest.raises(ManifestError) as caught:
        check_strop(tmp_path, changes={"strop.json": document})

    assert [problem.split()[0].strip("`:") for problem in caught.value.problems] == [
        "category",
        "tags",
        "reward-range",
        "sandbox",
    ]


@pytest.mark.parametrize(
    "entry_points", [None, ENTRY_POINTS + b"other = maze_env:load_environment\n"]
)
def test_the_entry_point_must_be_there_exactly_once(
    tmp_path: Path, entry_points: bytes | None
) -> None:
    with pytest.raises(ManifestError, match="exactly the entry"):
        check_strop(tmp_path, changes={"entry_points.txt": entry_points})


def test_native_code_needs_the_manifests_consent(tmp_path: Path) -> None:
    name = "maze_env-0.1.0-cp311-cp311-linux_x86_64.whl"

    with pytest.raises(ManifestError, match="Set `platform = true`"):
        check_strop(tmp_path, name)
    facts = check_strop(tmp_path, name, changes={"strop.json": strop_json(platform=True)})
    assert facts.tags == ("cp311-cp311-linux_x86_64",)


def test_a_foreign_wheels_odd_fields_are_left_out_not_refused(tmp_path: Path) -> None:
    metadata = METADATA.replace(
        b"Summary: Find the exit\n",
        b"Summary: a\tb\nRequires-Dist: not a requirement ((\nAuthor: Ada\n"
        b"Author-email: Ada <ada@x.org>, bob@x.org\nLicense: MIT\n more\n"
        b"Project-URL: Evil, javascript:alert(1)\nHome-page: https://x.org\n",
    )
    manifest = check(tmp_path, changes={"METADATA": metadata}).manifest

    assert manifest.summary == "a b"
    assert manifest.dependencies == []
    assert manifest.authors == ["Ada", "Ada <ada@x.org>", "bob@x.org"]
    assert manifest.license == "MIT"
    assert manifest.urls == {"Homepage": "https://x.org"}


def test_a_foreign_wheel_keeps_an_entry_point_that_is_one(tmp_path: Path) -> None:
    good = check(tmp_path, changes={"entry_points.txt": ENTRY_POINTS}).manifest
    bad = check(tmp_path, changes={"entry_points.txt": b"[strop.environments]\nx = 1 2\n"}).manifest

    assert (good.entry_point, bad.entry_point) == ("maze_env:load_environment", None)


def test_dependencies_of_extras_are_no_dependencies(tmp_path: Path) -> None:
    metadata = METADATA.replace(
        b"Summary", b"Requires-Dist: httpx>=1\nRequires-Dist: rich; extra == 'x'\nSummary"
    )

    assert check(tmp_path, changes={"METADATA": metadata}).manifest.dependencies == ["httpx>=1"]
