"""Write a text backwards: procedural, single turn, exact reward."""

import random
import string

from strop import Environment, Task, TaskSet
from strop.rewards import exact

SYSTEM_PROMPT = "Reverse the user's text letter by letter. Answer with the reversed text only."
EVAL_COUNT = 200


def load_environment(min_words: int = 1, max_words: int = 4, seed: int = 0) -> Environment:
    """The environment.

    Args:
        min_words: Fewest words of a text, ≥ 1.
        max_words: Most words of a text, ≥ min_words.
        seed: Another seed gives other texts.
    """
    if not 1 <= min_words <= max_words:
        raise ValueError(
            f"min_words is {min_words} and max_words {max_words}. "
            "Choose 1 or more words, and no more min_words than max_words."
        )

    def make(index: int, rng: random.Random, *, is_eval: bool) -> Task:
        text = _text(rng, rng.randint(min_words, max_words), is_eval=is_eval)
        return Task(str(index), text, reference=text[::-1])

    def make_train(index: int, rng: random.Random) -> Task:
        return make(index, rng, is_eval=False)

    def make_eval(index: int, rng: random.Random) -> Task:
        return make(index, rng, is_eval=True)

    return Environment(
        tasks={
            "train": TaskSet.generate(make_train, seed=seed),
            "eval": TaskSet.generate(make_eval, EVAL_COUNT, seed=seed),
        },
        rewards=[exact()],
        system_prompt=SYSTEM_PROMPT,
        oracle=_solve,
    )


def _solve(task: Task) -> str:
    return str(task.reference)


def _text(rng: random.Random, word_count: int, *, is_eval: bool) -> str:
    words = [_word(rng) for _ in range(word_count)]
    # The first letter decides the split, so that no text is in both.
    first = rng.choice("aeiou" if is_eval else "bcdfghjklmnpqrstvwxyz")
    return " ".join([first + words[0][1:], *words[1:]])


def _word(rng: random.Random) -> str:
    return "".join(rng.choice(string.ascii_lowercase) for _ in range(rng.randint(3, 8)))
