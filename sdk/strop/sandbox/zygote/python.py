"""Run Python code in this very process, as if the interpreter had just started with it."""

import atexit
import gc
import linecache
import os
import random
import signal
import sys
import traceback
import types
from typing import Any, NoReturn

FILE_NAME = "main.py"
_OURS = "strop"


def compile_quietly(source: bytes) -> types.CodeType | None:
    """Compile, or give None; then the run itself compiles again and shows the error."""
    try:
        return compile(source, FILE_NAME, "exec", dont_inherit=True)
    except BaseException:  # noqa: BLE001 - the code's own run reports it
        return None


def run(source: bytes, code: Any, argv: tuple[str, ...], paths: tuple[str, ...]) -> NoReturn:
    """Run `source` as ``__main__`` and exit as an interpreter would.

    Args:
        source: Text of the program, UTF-8 unless it says otherwise.
        code: Its compiled form, where there is one.
        argv: The program's arguments, without its name.
        paths: Put before the standard library on the import path.
    """
    module = _dress(source, argv, paths)
    status = 0
    try:
        if code is None:
            code = compile(source, FILE_NAME, "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102 - this is what the sandbox is for
    except SystemExit as request:
        status = _exit_status(request)
    except BaseException as error:  # noqa: BLE001 - shown as an interpreter would
        traceback.print_exception(error.with_traceback(_below_here(error)))
        status = 1
    os._exit(_finish(status))


def _dress(source: bytes, argv: tuple[str, ...], paths: tuple[str, ...]) -> types.ModuleType:
    """Make the interpreter look freshly started."""
    for name in [name for name in sys.modules if name.partition(".")[0] == _OURS]:
        del sys.modules[name]
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=FILE_NAME, __builtins__=__builtins__)
    sys.modules["__main__"] = module
    sys.argv = [FILE_NAME, *argv]
    sys.path[:] = [*paths, *sys.path]
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    text = source.decode(errors="replace")
    linecache.cache[FILE_NAME] = (len(text), None, text.splitlines(True), FILE_NAME)
    gc.enable()
    return module


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
            traceback.print_exc()
        return status or 1
    return status
