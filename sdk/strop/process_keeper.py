"""Runs a program that ends with its caller: ``process_keeper.py CALLER PROGRAM ARGUMENT…``.

The program has the keeper's streams and process group. It is killed, with all that it started, also
what has left its session, when it ends, when the process CALLER dies, however that was, or when it
does not heed a SIGTERM (step: rollout).

It imports only what starts in no time, and nothing of strop.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE_S = 1.0
"""Between a SIGTERM and the end."""
_CALLER_DIED = signal.SIGUSR1
# Blocked and waited for: none can arrive in the moment before the wait.
_AWAITED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGALRM, _CALLER_DIED)


def main(caller: int, command: list[str]) -> int:
    """Start the program and stay until all of it is gone."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    _ask_kernel(_PR_SET_CHILD_SUBREAPER, 1)
    _end_with(caller, _CALLER_DIED)
    keeper = os.getpid()
    program = os.fork()
    if program == 0:
        _become(command, keeper)
    # The other ends see when the program closes them.
    os.close(0)
    os.close(1)
    while True:
        arrived = signal.sigwait(_AWAITED)
        if arrived == signal.SIGTERM:
            signal.setitimer(signal.ITIMER_REAL, _PATIENCE_S)
        elif arrived != signal.SIGCHLD or _has_ended(program):
            break
    _kill_rest()
    return 0


def _become(command: list[str], keeper: int) -> None:
    try:
        _end_with(keeper, signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
        os.execvp(command[0], command)  # noqa: S606 - the program is a list of arguments
    except OSError as error:
        os.write(2, f"{command[0]}: {error}\n".encode())
    finally:
        os._exit(127)


def _end_with(parent: int, by: signal.Signals) -> None:
    _ask_kernel(_PR_SET_PDEATHSIG, by)
    if os.getppid() != parent:
        os._exit(1)


def _ask_kernel(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _has_ended(program: int) -> bool:
    """Collect the dead, and say whether the program is among them."""
    found = False
    while True:
        try:
            dead, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if dead == 0:
            return found
        found = found or dead == program


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
    try:
        with open(f"/proc/{me}/task/{me}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except FileNotFoundError:
        return []


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
