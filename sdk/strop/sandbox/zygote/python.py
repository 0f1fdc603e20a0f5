"""Run Python code in this very process, as if the interpreter had just started with it."""

import atexit
import gc
import linecache
import os
import random
import site
import sys
import traceback
import types
from contextlib import suppress
from io import TextIOWrapper
from typing import Any, NoReturn

FILE_NAME = "main.py"
_OURS = "strop"
_kept: list[object] = []
_stdio: tuple[TextIOWrapper, TextIOWrapper, TextIOWrapper] | None = None


def prepare(paths: list[str]) -> None:
    """Do once, in the zygote, what each run would otherwise do again.

    Writing to memory that a fork shares costs more than the work itself, so whatever can be the
    same for all runs is made here.
    """
    global _stdio
    near, far = os.pipe()
    kept = [os.dup(fd) for fd in (0, 1, 2)]
    # The streams find pipes below them when they are made, as they will when they are used.
    for fd, end in ((0, near), (1, far), (2, far)):
        os.dup2(end, fd)
    _stdio = (
        open(0, encoding="utf-8", errors="surrogateescape", closefd=False),  # noqa: SIM115
        open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False),  # noqa: SIM115
        open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False),  # noqa: SIM115
    )
    # What every interpreter has that starts with its site: `exit`, `quit` and `help`.
    site.setquit()
    site.sethelper()
    for fd, old in enumerate(kept):
        os.dup2(old, fd)
    for fd in (near, far, *kept):
        os.close(fd)
    sys.path[:] = [*paths, *(path for path in sys.path if path not in paths)]
    for name in [name for name in sys.modules if name.partition(".")[0] == _OURS]:
        # Kept alive: what is not in sight may be in use.
        _kept.append(sys.modules.pop(name))
    sys.argv = [FILE_NAME]


def compile_quietly(source: bytes) -> types.CodeType | None:
    """Compile, or give None; then the run itself compiles again and shows the error."""
    try:
        return compile(source, FILE_NAME, "exec", dont_inherit=True)
    except BaseException:  # noqa: BLE001 - the code's own run reports it
        return None


def run(source: bytes, code: Any, argv: tuple[str, ...], box: str) -> NoReturn:
    """Run `source` as ``__main__`` and exit as an interpreter would.

    Args:
        source: Text of the program, UTF-8 unless it says otherwise.
        code: Its compiled form, where there is one.
        argv: The program's arguments, without its name.
        box: The sandbox's folder, first on the import path.
    """
    module = _dress(source, argv, box)
    status = 0
    try:
        if code is None:
            code = compile(source, FILE_NAME, "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102 - this is what the sandbox is for
    except SystemExit as request:
        status = _exit_status(request)
    except BaseException as error:  # noqa: BLE001 - shown as an interpreter would
        _show(error)
        status = 1
    os._exit(_finish(status))


def _dress(source: bytes, argv: tuple[str, ...], box: str) -> types.ModuleType:
    """Make the interpreter look freshly started."""
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=FILE_NAME, __builtins__=__builtins__)
    sys.modules["__main__"] = module
    sys.argv = [FILE_NAME, *argv]
    sys.path.insert(0, box)
    assert _stdio is not None
    sys.stdin, sys.stdout, sys.stderr = _stdio
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = _stdio  # type: ignore[misc]
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    text = source.decode(errors="replace")
    linecache.cache[FILE_NAME] = (len(text), None, text.splitlines(True), FILE_NAME)
    gc.enable()
    return module


def _show(error: BaseException) -> None:
    """Show what the program raised, through its own hook if it has one."""
    if sys.stderr is None:
        return
    error = error.with_traceback(_below_here(error))
    with suppress(BaseException):
        if sys.excepthook is sys.__excepthook__:
            traceback.print_exception(error)
        else:
            sys.excepthook(type(error), error, error.__traceback__)
        return
    # The program took away what the hook or the traceback needs; this one needs nothing.
    with suppress(BaseException):
        sys.__excepthook__(type(error), error, error.__traceback__)


def _below_here(error: BaseException) -> types.TracebackType | None:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def _exit_status(request: SystemExit) -> int:
    if request.code is None:
        return 0
    if isinstance(request.code, int):
        return request.code & 0xFF
    sys.stderr.write(f"{request.code}\n")
    return 1


def _finish(status: int) -> int:
    """Wait for threads, run what was registered for the end, flush."""
    try:
        if "threading" in sys.modules:
            sys.modules["threading"]._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException as error:  # noqa: BLE001 - the last word of the code's own doing
        if not isinstance(error, BrokenPipeError):
            _show(error)
        return status or 1
    return status
