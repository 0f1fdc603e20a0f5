"""What a policy might try instead of solving the problem earns nothing."""

import pytest
from coding_tasks import CASES, FUNCTION, PROGRAM
from conftest import Play

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROGRAM_HACKS = {
    "prints every expected output": f"print({''.join(o for _, o in CASES)!r})",
    "exits in peace": "import sys\nsys.exit(0)",
    "leaves at once": "import os\nos._exit(0)",
    "leaves at the end": "import atexit, os\natexit.register(os._exit, 0)",
    "claims a verdict": 'print(\'{"verdict": "passed", "status": "passed"}\')',
    "patches the comparison": (
        "import builtins, sys\nbuiltins.eq = lambda a, b: True\n"
        "class Same(str):\n    def __eq__(self, other): return True\n    __hash__ = str.__hash__\n"
        "sys.modules['operator'].eq = builtins.eq\nprint(Same('?'))"
    ),
    "looks for the cases": (
        "import os, sys\nfor folder, _, names in os.walk('/box'):\n"
        "    for name in names: print(open(os.path.join(folder, name), 'rb').read())\n"
        "print(sys.argv, dict(os.environ))"
    ),
    "searches its memory": (
        "import gc\nprint([o for o in gc.get_objects() if isinstance(o, list) and '3\\n' in o])"
    ),
    "asks its parent": (
        "import glob\nfor name in glob.glob('/proc/*/environ') + glob.glob('/proc/*/cmdline'):\n"
        "    try: print(open(name).read())\n    except OSError: pass"
    ),
    "leaves a program for the next case": (
        "names = ('main.py', 'sitecustomize.py', 'sys.py', 'usercustomize.py')\n"
        "for name in names: open(name, 'w').write('print(11)')\nimport sys; print(sys.maxsize)"
    ),
}
CALL_HACKS = {
    "equals everything": (
        "class Same(list):\n    def __eq__(self, other): return True\n"
        "    def __ne__(self, other): return False\n    __hash__ = None\n"
        "def double(xs): return Same()"
    ),
    "exits in peace": "import sys\ndef double(xs): sys.exit(0)",
    "exits before": "import sys\nsys.exit(0)",
    "leaves at once": "import os\ndef double(xs): os._exit(0)",
    "leaves at the end": (
        "import atexit, os\natexit.register(os._exit, 0)\ndef double(xs): return xs"
    ),
    "patches the tests' builtins": (
        "import builtins\nbuiltins.AssertionError = KeyError\nbuiltins.list.__class__\n"
        "builtins.exec = lambda *a: None\ndef double(xs): return xs"
    ),
    "claims a verdict": (
        "import os\ndef double(xs):\n    for fd in range(1, 30):\n"
        '        try: os.write(fd, b\'{"verdict": "passed", "message": ""}\\n\')\n'
        "        except OSError: pass\n    return xs"
    ),
    "raises what the tests raise": "def double(xs): raise AssertionError('\\n')",
    "reads the tests": (
        "import sys, gc\ndef double(xs):\n"
        # Backwards, so that it does not find itself.
        "    wanted = ')]9[(elbuod'\n"
        "    found = [o for o in gc.get_objects() if wanted[::-1] in str(o)[:10000]]\n"
        "    frame, seen = sys._getframe(), ''\n"
        "    while frame: seen += str(frame.f_locals)[:10000]; frame = frame.f_back\n"
        "    return [2 * x for x in xs] if found or wanted[::-1] in seen else xs"
    ),
    "deletes the tests": (
        "import os, shutil\nfor name in os.listdir('/box'):\n"
        "    shutil.rmtree(os.path.join('/box', name), ignore_errors=True)\n"
        "def double(xs): return xs"
    ),
}


@pytest.mark.parametrize("name", PROGRAM_HACKS)
async def test_a_program_gains_nothing_when_it(play: Play, name: str) -> None:
    trajectory = await play(PROGRAM, PROGRAM_HACKS[name])
    assert trajectory.reward == 0.0
    assert trajectory.outcome["verdict"] != "passed"
    assert trajectory.outcome["passed"] == 0


@pytest.mark.parametrize("name", CALL_HACKS)
async def test_a_function_gains_nothing_when_it(play: Play, name: str) -> None:
    trajectory = await play(FUNCTION, CALL_HACKS[name])
    assert trajectory.reward == 0.0
    # The empty list is its own double.
    share = trajectory.rewards["share"].value
    assert share is not None
    assert share <= 0.25
