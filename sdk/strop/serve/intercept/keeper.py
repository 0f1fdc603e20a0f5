"""Runs as a process of its own: starts a program, and leaves nothing of it behind.

``python keeper.py ARGUMENT...`` speaks with its parent through its standard input and output:
it writes ``started PID``, ``failed ERRNO`` and at last ``ended CODE``. It adopts whatever the
program leaves, also what has left its session, and kills it when the program ends, or when
the standard input closes: then the parent wants so, or is dead itself. ``T`` on the standard
input asks the program to end. What the program prints goes to the keeper's standard error.

It imports only what starts in no time, and nothing of strop.
"""

import os
import select
import signal
import sys

_ADOPT = 36  # PR_SET_CHILD_SUBREAPER


def main(arguments: list[str]) -> int:
    """Start the program and stay until all of it is gone."""
    _adopt_orphans()
    wake_reader, wake_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # The parent's business: it closes our standard input.
        signal.signal(each, signal.SIG_IGN)
    pid = _start(arguments)
    if pid is None:
        return 0
    _say(f"started {pid}")
    status = None
    while status is None:
        readable, _, _ = select.select([0, wake_reader], [], [])
        if 0 in readable:
            order = os.read(0, 1)
            if not order:
                os.kill(pid, signal.SIGKILL)
                _, status = os.waitpid(pid, 0)
                break
            if order == b"T":
                _signal_group(pid, signal.SIGTERM)
        if wake_reader in readable:
            os.read(wake_reader, 4096)
        status = _reap(pid)
    _kill_rest()
    _say(f"ended {os.waitstatus_to_exitcode(status)}")
    return 0


def _adopt_orphans() -> None:
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(_ADOPT, 1, 0, 0, 0)


def _start(arguments: list[str]) -> int | None:
    told, telling = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
                signal.signal(each, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(2, 1)
            os.execvp(arguments[0], arguments)  # noqa: S606 - the program is a list of arguments
        except OSError as error:
            os.write(telling, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(telling)
    problem = os.read(told, 16)
    os.close(told)
    if not problem:
        return pid
    os.waitpid(pid, 0)
    _say(f"failed {problem.decode()}")
    return None


def _reap(pid: int) -> int | None:
    """Collect the dead; the program's status once it is among them."""
    found = None
    while True:
        try:
            dead, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if dead == 0:
            return found
        if dead == pid:
            found = status


def _kill_rest() -> None:
    # Orphans become ours, so that each round finds the next generation.
    while children := _children():
        for child in children:
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> list[int]:
    me = os.getpid()
    with open(f"/proc/{me}/task/{me}/children") as file:
        return [int(pid) for pid in file.read().split()]


def _signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


def _say(line: str) -> None:
    try:
        os.write(1, f"{line}\n".encode())
    except BrokenPipeError:
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
