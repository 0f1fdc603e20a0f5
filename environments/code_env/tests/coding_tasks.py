"""Small problems of both kinds, and how an answer to them is written."""

from strop import Task

ADD = "import sys\nprint(sum(map(int, sys.stdin.read().split())))"
CASES = [["1 2\n", "3\n"], ["5 6\n", "11\n"], ["10 20\n", "30\n"], ["7 8\n", "15\n"]]
PROGRAM = Task(
    "add",
    "Print the sum.",
    {"judge": "stdio", "cases": CASES, "solution": ADD},
    {"language": "python"},
)
DOUBLE = "def double(xs):\n    return [2 * x for x in xs]"
FUNCTION = Task(
    "double",
    "Double every number.",
    {
        "judge": "calls",
        "cases": [
            "assert double([1]) == [2]",
            "assert double([]) == []",
            "assert double([3, 4]) == [6, 8]",
            "assert double([9]) == [18]",
        ],
        "names": ["double"],
        "setup": "",
        "solution": DOUBLE,
    },
    {"language": "python", "prelude": ""},
)


def answer(code: str, language: str = "python") -> str:
    return f"```{language}\n{code}\n```"
