"""A package with a fault is shown without the tests that fail because of it."""

import pytest

from strop.errors import SettingsError
from strop.sandboxed.faults import Fault
from strop.sandboxed.package import SourcePackage, package_spec

TESTS = b'''import pytest
from little import double

@pytest.mark.parametrize("n", [1, 2])
def test_double(n):
    assert double(n) == 2 * n

class TestZero:
    def test_zero(self):
        assert double(0) == 0

def test_other():
    text = """a\x0cb"""
    assert text
'''
FILES = {
    "PKG-INFO": b"Name: little\n",
    "little.egg-info/top_level.txt": b"little\nextra\n",
    "src/little/__init__.py": b"def double(n):\n    return n * 2\n",
    "src/little/tests/test_inner.py": b"",
    "src/extra.py": b"",
    "src/latin.py": b"# \xe9\n",
    "build/lib/little/__init__.py": b"def double(n):\n    return n * 2\n",
    "setup.py": b"1",
    "tests/test_little.py": TESTS,
}
PATH = "src/little/__init__.py"


def shown(*failing: str) -> dict[str, bytes] | None:
    source = FILES[PATH].decode()
    start = source.index("n * 2")
    fault = Fault(PATH, start, start + 5, "n + 2", dict.fromkeys(failing, "it fails"))
    return SourcePackage("little", FILES).faulty(fault)


def test_sources_are_the_modules_that_are_imported() -> None:
    package = SourcePackage("little", {**FILES, "little.py": b"# \xe9\n"})
    assert sorted(package.sources) == ["src/extra.py", PATH]
    assert package.modules == ["extra", "little"]
    assert package.others["little.dist-info/METADATA"] == b"Name: little\n"
    assert {"setup.py", "tests/test_little.py", "little.py"} < package.others.keys()


def test_failing_tests_and_copies_of_the_source_are_taken_out() -> None:
    path = "tests/test_little.py"
    files = shown(f"{path}::test_double[1]", f"{path}::TestZero::test_zero")
    assert files is not None
    text = files[path].decode()
    assert "parametrize" not in text
    assert "double(" not in text
    assert "class TestZero:\n    pass" in text
    assert text.endswith('def test_other():\n    text = """a\x0cb"""\n    assert text\n')
    assert b"n + 2" in files[PATH]
    assert "build/lib/little/__init__.py" not in files
    compile(text, "tests", "exec")


@pytest.mark.parametrize(
    "test",
    [
        "tests/test_little.py::test_inherited",
        "tests/test_little.py",
        "README.rst::README.rst",
        "src/latin.py::latin",
    ],
)
def test_a_fault_whose_tests_cannot_be_taken_out_is_none(test: str) -> None:
    assert shown(test) is None


def test_sandboxes_show_the_test_runner_and_nothing_installed_beside_it() -> None:
    spec = package_spec("little")
    names = {path.rpartition("/")[2] for path in spec.profile.mounts}
    assert names == {"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py.py"}
    with pytest.raises(SettingsError, match="packaging runs the tests"):
        package_spec("packaging")
