"""Read and write a sandbox's files, by a process that has no more rights than the code in it."""

import errno
import json
import os
import stat
from collections.abc import Callable
from contextlib import suppress

from strop.sandbox.wire import pack_result
from strop.sandbox.zygote import linux

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_CHUNK_BYTES = 1 << 16


def write(box: str, name: str, content: bytes, *, is_executable: bool = False) -> None:
    """Write a file below `box`, with the folders that lead to it.

    Raises:
        OSError: The path leads out of the folder or through a link.
    """
    folder = os.open(box, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _make_folders(folder, os.path.dirname(name))
        mode = 0o755 if is_executable else 0o644
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with open(linux.open_beneath(folder, name, flags, mode), "wb", buffering=0) as file:
            view = memoryview(content)
            while view:
                view = view[file.write(view) :]
    finally:
        os.close(folder)


def _make_folders(folder: int, path: str) -> None:
    made = ""
    for part in [part for part in path.split("/") if part]:
        made = f"{made}/{part}" if made else part
        try:
            os.close(linux.open_beneath(folder, made, os.O_PATH | os.O_DIRECTORY))
        except FileNotFoundError:
            # Others may write into the same folder at this moment.
            with suppress(FileExistsError):
                os.mkdir(made, 0o755, dir_fd=folder)


def operate(box: str, argv: tuple[str, ...]) -> int:
    """Do one operation, its input on stdin and its result on stdout; give the exit code."""
    operations: dict[str, Callable[..., None]] = {
        "collect": _collect,
        "read": _read,
        "list": _list,
        "pack": _pack,
        "unpack": _unpack,
        "write": _write_stdin,
    }
    try:
        operations[argv[0]](box, *argv[1:])
    except OSError as error:
        return _refuse(error.errno, error.strerror or str(error))
    except RecursionError:
        return _refuse(errno.ENAMETOOLONG, "folders are nested too deep")
    return 0


def _refuse(code: int | None, text: str) -> int:
    os.write(2, json.dumps([code, text]).encode())
    return 1


def _write_stdin(box: str, name: str, mode: str) -> None:
    with open(0, "rb", closefd=False) as stdin:
        content = stdin.read()
    write(box, name, content, is_executable=mode == "executable")


def _open_regular(box: str, name: str) -> int:
    folder = os.open(box, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fd = linux.open_beneath(folder, name, _READ)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(22, "not a regular file")
    return fd


def _read(box: str, name: str, offset: str, size: str) -> None:
    fd = _open_regular(box, name)
    position, left = int(offset), int(size)
    while left > 0 and (chunk := os.pread(fd, min(left, _CHUNK_BYTES), position)):
        _put(chunk)
        position, left = position + len(chunk), left - len(chunk)


def _collect(box: str, largest: str, *names: str) -> None:
    errors: dict[str, list[object]] = {}
    blobs = []
    for name in names:
        try:
            blobs.append(_whole(box, name, int(largest)))
        except OSError as error:
            errors[name] = [error.errno, error.strerror or str(error)]
    found = [name for name in names if name not in errors]
    _put(pack_result(b"r", {"names": found, "errors": errors}, blobs))


def _whole(box: str, name: str, largest: int) -> bytes:
    with open(_open_regular(box, name), "rb") as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise OSError(27, f"larger than {largest} bytes")
    return content


def _list(box: str, name: str) -> None:
    folder = os.open(box, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    fd = linux.open_beneath(folder, name or ".", os.O_RDONLY | os.O_DIRECTORY)
    rows = []
    for entry in sorted(os.listdir(fd)):
        facts = os.stat(entry, dir_fd=fd, follow_symlinks=False)
        kind = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
        rows.append([entry, kind.get(stat.S_IFMT(facts.st_mode), "other"), facts.st_size])
    _put(json.dumps(rows).encode())


def _pack(box: str, name: str) -> None:
    import tarfile

    with (
        open(1, "wb", closefd=False) as stdout,
        tarfile.open(fileobj=stdout, mode="w|") as archive,
    ):
        archive.add(os.path.join(box, name) if name else box, arcname=".")


def _unpack(box: str, name: str) -> None:
    import tarfile

    target = os.path.join(box, name)
    os.makedirs(target, exist_ok=True)
    with (
        open(0, "rb", closefd=False) as stdin,
        tarfile.open(fileobj=stdin, mode="r|*") as archive,
    ):
        # Whatever is in it: this process has no more rights than the code that made it.
        archive.extraction_filter = getattr(tarfile, "tar_filter", None)
        archive.extractall(target)  # noqa: S202


def _put(content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(1, view) :]
