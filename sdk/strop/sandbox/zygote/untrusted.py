"""The process that code runs in: first it gives up every right, then it takes a request."""

import fcntl
import marshal
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from strop.sandbox.wire import Request
from strop.sandbox.zygote import files, landlock, linux, python, seccomp
from strop.sandbox.zygote.confinement import REQUEST_FD, TROUBLE_FD
from strop.sandbox.zygote.groups import Group
from strop.sandbox.zygote.place import Place
from strop.sandbox.zygote.seccomp import SocketPolicy

SETUP_FAILED = 125
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127
_LENGTH = struct.Struct("=Q")
_STACK_BYTES, _LARGEST_STACK_BYTES = 8 << 20, 64 << 20
_HARMLESS = (
    "/dev/random",
    "/dev/urandom",
    "/proc/self",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/ssl/openssl.cnf",
)
_FOLDERS_OF_PROGRAMS = "/usr/local/bin:/usr/bin:/bin"
EXIT = struct.Struct("!idd q")
"""How a case ended: wait status, user and system seconds, peak kilobytes."""


@dataclass(slots=True)
class Child:
    """A confined process that waits for its request, seen from its supervisor."""

    pid: int
    pidfd: int
    stdin_fd: int
    stdout_fd: int
    stderr_fd: int
    trouble_fd: int
    """Tells why preparing failed; closed without a word when the code starts."""
    requests: socket.socket

    def close(self) -> None:
        """Close this side's descriptors."""
        fds = (self.pidfd, self.stdin_fd, self.stdout_fd, self.stderr_fd, self.trouble_fd)
        for fd in fds:
            if fd >= 0:
                os.close(fd)
        self.requests.close()

    def send(self, task: bytes) -> None:
        """Tell it what to do, by what `pack_task` gives."""
        self.requests.sendall(task)


class _Task(NamedTuple):
    """What a confined process is to do, as far as that is its own concern."""

    kind: str
    argv: tuple[str, ...]
    code: bytes
    env: dict[str, str]
    cwd: str
    files: dict[str, bytes]
    executables: frozenset[str]
    bounds: list[tuple[int, int, int]]
    """Of each resource its number, its soft and its hard limit."""
    has_cases: bool


def pack_task(request: Request, limits: Mapping[str, float]) -> bytes:
    """Write down what a confined process is to do.

    Whoever reads this trusts who has written it, and is a fresh fork, in which little should
    happen: so this form is quick to read, and says how the limits are to be set.
    """
    task = _Task(
        request.kind,
        request.argv,
        request.code,
        dict(request.env),
        request.cwd,
        dict(request.files),
        request.executables,
        _bounds(limits),
        request.cases is not None,
    )
    content = marshal.dumps(tuple(task))
    return _LENGTH.pack(len(content)) + content


def spawn(place: Place, sockets: SocketPolicy) -> Child:
    """Start a confined process; what does not depend on the request is done while it waits."""
    stdin_r, stdin_w = os.pipe2(os.O_CLOEXEC)
    stdout_r, stdout_w = os.pipe2(os.O_CLOEXEC)
    stderr_r, stderr_w = os.pipe2(os.O_CLOEXEC)
    trouble_r, trouble_w = os.pipe2(os.O_CLOEXEC)
    near, far = socket.socketpair()
    pid = linux.fork()
    if pid == 0:
        _run([stdin_r, stdout_w, stderr_w, trouble_w, far.fileno()], place, sockets)
    for fd in (stdin_r, stdout_w, stderr_w, trouble_w):
        os.close(fd)
    far.close()
    return Child(pid, os.pidfd_open(pid), stdin_w, stdout_r, stderr_r, trouble_r, near)


def _run(fds: list[int], place: Place, sockets: SocketPolicy) -> NoReturn:
    try:
        _take_descriptors(fds, place.group)
        _confine(place, sockets)
        serve(place)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is told and ends here
        tell_trouble(error)
    finally:
        os._exit(SETUP_FAILED)


def serve(place: Place) -> NoReturn:
    """Wait, confined, for what there is to do, and do it."""
    task = _receive()
    if task is None:
        os._exit(0)
    _prepare(place, task)
    if task.has_cases:
        _run_cases(place, task)
    os.close(REQUEST_FD)
    start(place, task)


def tell_trouble(error: BaseException) -> None:
    """Tell the supervisor why there was nothing to wait for."""
    try:
        os.write(TROUBLE_FD, f"{type(error).__name__}: {error}".encode(errors="replace"))
    except OSError:
        return


def _take_descriptors(fds: list[int], group: Group | None = None) -> None:
    """Move `fds` to 0, 1, 2, …, enter the group and close all others."""
    # No higher than needed: code may be allowed few descriptors.
    first = len(fds)
    high = [fd if fd >= first else fcntl.fcntl(fd, fcntl.F_DUPFD, first) for fd in fds]
    for wanted, fd in enumerate(high):
        os.dup2(fd, wanted, inheritable=wanted < TROUBLE_FD)
    if group is not None:
        group.enter()
    os.closerange(first, 1 << 20)


def _confine(place: Place, sockets: SocketPolicy) -> None:
    ground = place.ground
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    os.umask(0o022)
    os.chdir(place.box)
    if ground.switches_user:
        os.setgroups([])
        os.setresgid(place.gid, place.gid, place.gid)
        os.setresuid(place.uid, place.uid, place.uid)
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    if ground.tier == "userns":
        # A second user namespace: it has a count of processes of its own, and no capability
        # in it reaches the mounts of the first.
        linux.prctl(linux.PR_SET_DUMPABLE, 1)
        linux.unshare(linux.NEWUSER)
        linux.map_own_ids(place.uid, place.gid)
    if ground.tier != "plain":
        linux.drop_capabilities()
    if ground.tier == "landlock":
        devices = ["/dev/null", "/dev/zero", "/dev/full"]
        landlock.confine([*ground.readable, *_HARMLESS], [place.box, *devices])
    linux.prctl(linux.PR_SET_DUMPABLE, 1)
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    if ground.tier != "plain":
        seccomp.install(ground.filters[sockets])


def _receive() -> _Task | None:
    head = os.read(REQUEST_FD, _LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    # No byte more: what follows may carry descriptors.
    (size,) = _LENGTH.unpack(head)
    content = os.read(REQUEST_FD, size)
    if len(content) < size:
        parts = [content]
        while size := size - len(parts[-1]):
            parts.append(os.read(REQUEST_FD, size) or _raise_cut_off())
        content = b"".join(parts)
    return _Task(*marshal.loads(content))  # noqa: S302 - from our own supervisor


def _raise_cut_off() -> NoReturn:
    raise EOFError("the supervisor went away")


def _prepare(place: Place, task: _Task) -> None:
    """Write the task's files, lower the limits, set the variables."""
    for name, content in task.files.items():
        files.write(place.box, name, content, is_executable=name in task.executables)
    for kind, soft, hard in task.bounds:
        if kind != resource.RLIMIT_NOFILE or not task.has_cases:
            resource.setrlimit(kind, (soft, hard))
    if os.environ["HOME"] != place.box:
        os.environ.update(variables(place.box))
    if task.env:
        os.environ.update(task.env)
    if task.cwd:
        _enter(place, task)


def _enter(place: Place, task: _Task) -> None:
    """Go to the task's folder; where earlier code took it away, that code is to blame."""
    try:
        os.chdir(os.path.join(place.box, task.cwd))
    except OSError as error:
        if task.has_cases:
            raise
        os.write(2, f"{task.cwd}: {error.strerror}\n".encode(errors="replace"))
        os._exit(_NOT_EXECUTABLE)


def variables(box: str) -> dict[str, str]:
    """Give the variables that every run sees."""
    prefix = os.path.realpath(sys.base_prefix)
    return {
        "PATH": f"{prefix}/bin:{_FOLDERS_OF_PROGRAMS}",
        "HOME": box,
        "PWD": box,
        "TMPDIR": os.path.join(box, "tmp"),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _bounds(limits: Mapping[str, float]) -> list[tuple[int, int, int]]:
    """Give the soft and hard limit of each resource; hard ones that are lower already stay."""
    values = {
        resource.RLIMIT_FSIZE: int(limits["file_bytes"]),
        resource.RLIMIT_NOFILE: int(limits["open_file_count"]),
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    if limits["address_space_bytes"]:
        values[resource.RLIMIT_AS] = int(limits["address_space_bytes"])
    bounds = [(kind, most, most) for kind, value in values.items() for most in [_most(kind, value)]]
    # Of these the soft one tells the cause, or may be raised; the hard one is the last word.
    cpu_s = max(1, -int(-limits["cpu_s"] // 1))
    pids, last_pids = int(limits["pid_count"]), int(limits.get("pid_last", limits["pid_count"]))
    for kind, soft, hard in (
        (resource.RLIMIT_CPU, cpu_s, cpu_s + 1),
        (resource.RLIMIT_NPROC, pids, last_pids),
        (resource.RLIMIT_STACK, _STACK_BYTES, _LARGEST_STACK_BYTES),
    ):
        last = _most(kind, hard)
        bounds.append((kind, min(soft, last), last))
    return bounds


def _most(kind: int, value: int) -> int:
    hard = resource.getrlimit(kind)[1]
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def start(place: Place, task: _Task, code: object = None) -> NoReturn:
    """Become what was asked for. Only the standard streams are open from here on."""
    os.closerange(TROUBLE_FD, TROUBLE_FD + 1)
    if task.kind == "python":
        python.run(task.code, code, task.argv, place.box)
    if task.kind == "files":
        os._exit(files.operate(place.box, task.argv))
    _execute(task.argv)


def _execute(argv: tuple[str, ...]) -> NoReturn:
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], list(argv), dict(os.environ))  # noqa: S606 - no shell on purpose
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode(errors="replace"))
        is_missing = isinstance(error, FileNotFoundError)
        os._exit(_NOT_FOUND if is_missing else _NOT_EXECUTABLE)


def _run_cases(place: Place, task: _Task) -> NoReturn:
    """Fork once for each case; this process runs no code that it was sent, it only compiles it."""
    requests = socket.socket(fileno=REQUEST_FD)
    code = python.compile_quietly(task.code) if task.kind == "python" else None
    # Nothing that a case does can look into this process.
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    while True:
        word, fds, _, _ = socket.recv_fds(requests, 1, 3)
        if not word:
            os._exit(0)
        pid = linux.fork()
        if pid == 0:
            _become_case(fds, task)
            start(place, task, code)
        for fd in fds:
            os.close(fd)
        _, status, used = os.wait4(pid, 0)
        requests.sendall(EXIT.pack(status, used.ru_utime, used.ru_stime, used.ru_maxrss))


def _become_case(fds: list[int], task: _Task) -> None:
    """Take the streams, and the bound that the process which hands them over cannot have."""
    for wanted, fd in enumerate(fds):
        os.dup2(fd, wanted)
    # What goes wrong up to the start is still told.
    os.closerange(REQUEST_FD, 1 << 20)
    for kind, soft, hard in task.bounds:
        if kind == resource.RLIMIT_NOFILE:
            resource.setrlimit(kind, (soft, hard))
    linux.prctl(linux.PR_SET_DUMPABLE, 1)
