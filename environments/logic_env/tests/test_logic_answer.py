"""What counts as an answer, as the same answer, and as its form."""

import pytest
from logic_env import load_environment
from logic_env.answer import extract_answer, same_roles, same_text

from strop import ScriptedModel, Task


def task(reference: str) -> Task:
    return Task("1", "?", reference)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>5</answer>", "5"),
        ("so <answer> 5\n6 </answer> it is", "5\n6"),
        ("<answer>4</answer> no, <answer>5</answer>", "5"),
        ("First.\n\nIt is 5", "It is 5"),
        ("<think><answer>4</answer></think>5", "5"),
        ("<think><answer>4</answer>", ""),
        ("<answer>", "<answer>"),
        ("", ""),
        (" \n\t ", ""),
    ],
)
def test_the_last_tagged_answer_counts_and_else_the_last_line(text: str, answer: str) -> None:
    assert extract_answer(text) == answer


@pytest.mark.parametrize(
    ("answer", "reference", "is_same"),
    [
        ("true", "True", True),
        (" ann ,bob,  Cleo.", "Ann, Bob, Cleo", True),
        ("Ann, Cleo, Bob", "Ann, Bob, Cleo", False),
        ("] ) >", "] ) >", True),
        ("] ) > >", "] ) >", False),
        ("(B)", "(B)", True),
        ("b", "(B)", True),
        ("B.", "(B)", True),
        ("(B) the owl", "(B)", True),
        ("(A) or (B)", "(B)", False),
        ("(B) (B)", "(B)", False),
        ("A, B", "(B)", False),
        ("the owl", "(B)", False),
        ("\u0412", "(B)", False),
        ("(\uff22)", "(B)", False),
        ("\u0422rue", "True", False),
        ("", "True", False),
        ("", "(B)", False),
    ],
)
def test_case_and_spacing_are_forgiven_and_nothing_else(
    answer: str, reference: str, is_same: bool
) -> None:
    assert same_text(task(reference), answer) == is_same


@pytest.mark.parametrize(
    ("answer", "is_same"),
    [
        ("Ann: knight, Bob: knave", True),
        ("bob is a knave and ann is a knight", True),
        ("Ann: knight", False),
        ("Ann: knight, Bob: knight", False),
        ("Ann: knight, Bob: knave, Bob: knight", False),
        ("Ann: knight, Bob: knave, Cleo: knave", False),
        ("Ann: knight, Bob: knave, Ann: knight", False),
        ("", False),
    ],
)
def test_everybody_has_one_role(answer: str, is_same: bool) -> None:
    assert same_roles(task("Ann: knight, Bob: knave"), answer) == is_same


@pytest.mark.parametrize(
    ("reply", "correct", "formatted"),
    [
        ("<answer>{}</answer>", 1, 1),
        ("thus <answer>{}</answer>\n", 1, 1),
        ("{}", 1, 0),
        ("<answer>{}</answer> surely", 1, 0),
        ("<answer>no</answer><answer>{}</answer>", 1, 0),
        ("<answer>{}</answer><answer>no</answer>", 0, 0),
        ("<answer>no</answer>", 0, 1),
        ("<answer></answer>", 0, 0),
        ("", 0, 0),
    ],
)
async def test_the_form_is_paid_apart_from_the_answer(
    reply: str, correct: int, formatted: int
) -> None:
    for weight in (0.0, 0.2):
        environment = load_environment(generators=("own",), format_weight=weight)
        async with environment:
            first = environment.tasks["train"][0]
            model = ScriptedModel.constant(reply.format(first.reference))
            trajectory = await environment.rollout(first, model)
        assert trajectory.rewards["correct"].value == correct
        paid = trajectory.rewards.get("formatted")
        assert (trajectory.metrics["formatted"] if paid is None else paid.value) == formatted
        assert trajectory.reward == pytest.approx((1 - weight) * correct + weight * formatted)
