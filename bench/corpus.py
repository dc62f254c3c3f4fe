"""Message texts of about 1 KB, distinct and repeatable. Standard library only: the peer process imports it as well."""

from collections.abc import Iterator
from random import Random

TEXT_BYTES = 970  # with the JSON around it, a body of this text is 1 KB

_WORDS = """
the a this that each one session store event writer reader index commit page query test build deploy cache queue token
schema column worker request reply timeout retry branch merge patch review log trace span metric budget owner lease
opens closes reads writes keeps drops moves renames checks fails passes returns waits blocks skips because after before
while when unless so then now still again only first last slow fast empty stale fresh wrong right missing unused
nested shared local remote tiny large quiet and or but with without from into over under between against about
""".split()
_PATHS = ("src/app/routes.py", "tests/test_orders.py", "infra/main.tf", "web/pages/login.tsx", "docs/setup.md")
_SENTENCES = 600


def texts(seed: int) -> Iterator[str]:
    """Yield texts without end: no two are equal, and the same seed yields the same texts."""
    random = Random(seed)
    sentences = [_sentence(random) for _ in range(_SENTENCES)]
    number = 0
    while True:
        number += 1
        opening = f"Step {seed}.{number}: "
        yield (opening + " ".join(random.choices(sentences, k=20)))[:TEXT_BYTES]


def _sentence(random: Random) -> str:
    """Make one sentence, now and then with the quotes, newlines and paths that JSON has to escape."""
    words = random.choices(_WORDS, k=random.randint(7, 15))
    text = " ".join(words).capitalize()
    match random.randint(0, 9):
        case 0:
            return f'{text}: "{random.choice(_WORDS)} {random.randint(1, 9999)}".'
        case 1:
            return f"{text}, see {random.choice(_PATHS)}:{random.randint(1, 900)}.\n"
        case 2:
            return f"{text}?"
        case _:
            return f"{text}."
