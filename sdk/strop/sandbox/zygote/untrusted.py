"""The process that code runs in: first it gives up every right, then it takes a request."""

import fcntl
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from strop.sandbox.wire import HEADER, Request
from strop.sandbox.zygote import files, landlock, linux, python, seccomp
from strop.sandbox.zygote.place import Place
from strop.sandbox.zygote.seccomp import SocketPolicy

TROUBLE_FD, REQUEST_FD = 3, 4
_SETUP_FAILED, _NOT_EXECUTABLE, _NOT_FOUND = 125, 126, 127
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

    def send(self, request: bytes) -> None:
        """Tell it what to do; `request` is a frame."""
        self.requests.sendall(request)


def spawn(place: Place, sockets: SocketPolicy) -> Child:
    """Start a confined process; what does not depend on the request is done while it waits."""
    stdin_r, stdin_w = os.pipe2(os.O_CLOEXEC)
    stdout_r, stdout_w = os.pipe2(os.O_CLOEXEC)
    stderr_r, stderr_w = os.pipe2(os.O_CLOEXEC)
    trouble_r, trouble_w = os.pipe2(os.O_CLOEXEC)
    near, far = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        _run([stdin_r, stdout_w, stderr_w, trouble_w, far.fileno()], place, sockets)
    for fd in (stdin_r, stdout_w, stderr_w, trouble_w):
        os.close(fd)
    far.close()
    return Child(pid, os.pidfd_open(pid), stdin_w, stdout_r, stderr_r, trouble_r, near)


def _run(fds: list[int], place: Place, sockets: SocketPolicy) -> NoReturn:
    try:
        _take_descriptors(fds)
        _confine(place, sockets)
        with socket.socket(fileno=REQUEST_FD) as requests:
            request = _receive(requests)
            if request is None:
                os._exit(0)
            _prepare(place, request)
            if request.cases is None:
                requests.close()
                start(place, request)
            _run_cases(requests, place, request)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is told and ends here
        _tell_trouble(error)
    finally:
        os._exit(_SETUP_FAILED)


def _tell_trouble(error: BaseException) -> None:
    try:
        os.write(TROUBLE_FD, f"{type(error).__name__}: {error}".encode(errors="replace"))
    except OSError:
        return


def _take_descriptors(fds: list[int]) -> None:
    """Move `fds` to 0, 1, 2, … and close all others."""
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 64) for fd in fds]
    for wanted, fd in enumerate(high):
        os.dup2(fd, wanted, inheritable=wanted < TROUBLE_FD)
    os.closerange(len(fds), 1 << 20)


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


def _receive(requests: socket.socket) -> Request | None:
    head = requests.recv(HEADER.size, socket.MSG_WAITALL)
    if len(head) < HEADER.size:
        return None
    payload = requests.recv(HEADER.unpack(head)[1], socket.MSG_WAITALL)
    return Request.unpack(payload)


def _prepare(place: Place, request: Request) -> None:
    """Write the request's files, lower the limits, set the variables, reset the signals."""
    for name, content in request.files.items():
        files.write(place.box, name, content, is_executable=name in request.executables)
    _limit_resources(request.limits)
    if os.environ["HOME"] != place.box:
        os.environ.update(variables(place.box))
    os.environ.update(request.env)
    if request.cwd:
        os.chdir(os.path.join(place.box, request.cwd))


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


def _limit_resources(limits: Mapping[str, float]) -> None:
    cpu_s = max(1, -int(-limits["cpu_s"] // 1))
    values = {
        resource.RLIMIT_FSIZE: int(limits["file_bytes"]),
        resource.RLIMIT_NOFILE: int(limits["open_file_count"]),
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    if limits["address_space_bytes"]:
        values[resource.RLIMIT_AS] = int(limits["address_space_bytes"])
    linux.set_resource_limits(values)
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    most = int(limits.get("pid_last", limits["pid_count"]))
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (min(int(limits["pid_count"]), most), most))
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    last_s = cpu_s + 1 if hard == resource.RLIM_INFINITY else min(cpu_s + 1, hard)
    # The first bound sends a signal that tells the cause, the second one kills.
    resource.setrlimit(resource.RLIMIT_CPU, (min(cpu_s, last_s), last_s))
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    top = _LARGEST_STACK_BYTES if hard == resource.RLIM_INFINITY else min(hard, 64 << 20)
    resource.setrlimit(resource.RLIMIT_STACK, (min(_STACK_BYTES, top), top))


def start(place: Place, request: Request, code: object = None) -> NoReturn:
    """Become what was asked for. Only the standard streams are open from here on."""
    if request.kind == "files":
        os.close(TROUBLE_FD)
        os._exit(files.operate(place.box, request.argv))
    if request.kind == "python":
        os.closerange(TROUBLE_FD, TROUBLE_FD + 1)
        python.run(request.code, code, request.argv, place.box)
    os.closerange(TROUBLE_FD, TROUBLE_FD + 1)
    _execute(request.argv)


def _execute(argv: tuple[str, ...]) -> NoReturn:
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], list(argv), dict(os.environ))  # noqa: S606 - no shell on purpose
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode(errors="replace"))
        is_missing = isinstance(error, FileNotFoundError)
        os._exit(_NOT_FOUND if is_missing else _NOT_EXECUTABLE)


def _run_cases(requests: socket.socket, place: Place, request: Request) -> NoReturn:
    """Fork once for each case; this process runs no code that it was sent, it only compiles it."""
    code = python.compile_quietly(request.code) if request.kind == "python" else None
    os.closerange(TROUBLE_FD, TROUBLE_FD + 1)
    # Nothing that a case does can look into this process.
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    while True:
        word, fds, _, _ = socket.recv_fds(requests, 1, 3)
        if not word:
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            _take_descriptors(fds)
            linux.prctl(linux.PR_SET_DUMPABLE, 1)
            start(place, request, code)
        for fd in fds:
            os.close(fd)
        _, status, used = os.wait4(pid, 0)
        requests.sendall(EXIT.pack(status, used.ru_utime, used.ru_stime, used.ru_maxrss))
