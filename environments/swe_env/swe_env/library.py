"""The libraries of this package: source, cases with what they give, and faults that they show."""

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from strop.models.scripted import call
from strop.sandbox import Backend, Limits
from strop.sandboxed.faults import Fault

DATA = Path(__file__).with_name("data")
_READY = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""What mini-swe-agent's model says at the end."""
LIMITS = Limits(wall_s=60.0, cpu_s=15.0)


def read_text(path: str, **pieces: str) -> str:
    """A text of this package's data, with pieces put in."""
    text = (DATA / path).read_text(encoding="utf-8")
    for place, piece in pieces.items():
        text = text.replace(f"@{place}@", piece)
    return text


def script_of(agent: str, command: str) -> list[Any]:
    """What an oracle says that knows the command of the shell that repairs everything."""
    if agent == "tools":
        return [call("bash", commands=command), "It is repaired."]
    return [call("bash", command=text) for text in (command, f"echo {_READY}")]


class CaseLibrary:
    """A module whose tests are expressions, worked out in a sandbox and compared outside."""

    command = "python3 run_tests.py"
    isolation = "separate"
    modules = ()

    def __init__(self, name: str) -> None:
        self.name = name
        self.sources = {f"{name}.py": read_text(f"{name}/{name}.py")}
        self.cases = read_text(f"{name}/cases.txt").splitlines()

    @cached_property
    def record(self) -> Any:
        """What each case gives when nothing is wrong, and the faults that are known to show."""
        return json.loads(read_text(f"{self.name}/faults.json"))

    @property
    def faults(self) -> list[Fault]:
        """Those that are known to show."""
        return [Fault(**fault) for fault in self.record["faults"]]

    def is_visible(self, test: str, _fault: Fault | None = None) -> bool:
        """Whether the model sees a test."""
        return int(test) % 3 == 0

    def told(self, fault: Fault) -> list[str]:
        """What an issue may tell of a fault."""
        seen = filter(self.is_visible, fault.failing)
        return [self.tell(test, fault.failing[test]) for test in seen]

    def tell(self, test: str, got: str) -> str:
        """What is wrong, as a line of an issue."""
        expected = self.record["expected"][int(test)]
        return f"- `{self.cases[int(test)]}` gives `{got}`, and should give `{expected}`"

    def others(self) -> dict[str, str]:
        """The files beside the source."""
        made = read_text("tests_head.txt", module=self.name)
        for index, (case, value) in enumerate(
            zip(self.cases, self.record["expected"], strict=True)
        ):
            if self.is_visible(str(index)):
                got = f"raised(lambda: {case})" if value.startswith("raises ") else case
                wanted = repr(value) if value.startswith("raises ") else value
                made += f"\n\ndef test_{index}():\n    assert {got} == {wanted}\n"
        return {
            "README.md": read_text("readme.txt", module=self.name),
            "run_tests.py": read_text("run_tests.txt"),
            f"tests/test_{self.name}.py": made,
        }

    def shown(self, fault: Fault) -> dict[str, bytes]:
        """The library with a fault, and the tests that may be seen."""
        files = {**self.others(), **self.sources}
        files[fault.path] = fault.applied(files[fault.path])
        return {path: text.encode() for path, text in files.items()}

    async def values(self, backend: Backend, sources: Mapping[str, bytes]) -> list[str]:
        """What the cases give; nothing where the library ends or hangs."""
        asked = json.dumps([self.name, self.cases]).encode()
        code = read_text("driver.txt")
        result = await backend.run(code, files=sources, stdin=asked, limits=LIMITS)
        try:
            return list(json.loads(result.text))
        except (ValueError, TypeError):
            return []

    async def failing(self, backend: Backend, sources: Mapping[str, bytes]) -> dict[str, str]:
        """From the tests that fail to what they give."""
        values = await self.values(backend, sources)
        values += ["nothing"] * (len(self.cases) - len(values))
        pairs = enumerate(zip(values, self.record["expected"], strict=False))
        return {str(index): str(got) for index, (got, wanted) in pairs if got != wanted}
