"""What masking costs: it grows with the text, whatever the text is, and a text that comes again costs nothing."""

import json
import random
from collections.abc import Callable

import pytest

from clew.secrets import mask_cache, patterns
from clew.secrets.masking import MARK, Masker
from clew.secrets.rules import bundled
from clew.secrets.scanner import Scanner
from support.fake_secrets import ALNUM, some

SCANNER = Scanner(bundled())
R = random.Random(5)
SIZE = 256 * 1024

HOSTILE: dict[str, Callable[[], str]] = {
    "passwords": lambda: f"password=A1b2{some(ALNUM, 8)(R)};",
    "passwords as JSON": lambda: json.dumps([f"password=A1b2{some(ALNUM, 8)(R)};"]),
    "tokens": lambda: f"ghp_{some(ALNUM, 36)(R)} ",
    "URLs": lambda: f"http://u:A1b2{some(ALNUM, 8)(R)}@h/ ",
    "lines": lambda: f"password=A1b2{some(ALNUM, 8)(R)}\n",
}


class Effort:
    """Counts the searches of regexes, and the bytes they may read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.matches = 0
        self.tested = 0
        next_in, is_in = patterns.Finder.next_in, patterns.Tester.is_in

        def counted(finder: patterns.Finder, text: bytes, start: int) -> patterns.Spans | None:
            self.matches += 1
            return next_in(finder, text, start)

        def tested(tester: patterns.Tester, text: bytes) -> bool:
            self.tested += len(text)
            return is_in(tester, text)

        monkeypatch.setattr(patterns.Finder, "next_in", counted)
        monkeypatch.setattr(patterns.Tester, "is_in", tested)


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_text_of_nothing_but_secrets_is_masked_in_few_steps(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    units = []
    while sum(map(len, units)) < SIZE:
        units.append(HOSTILE[kind]())
    effort = Effort(monkeypatch)
    # Rules are compiled once, on first use.
    masked, _ = Masker(Scanner(bundled()), b"k").mask("".join(units))
    left = [unit for unit in units if unit[-13:-1] in masked]
    assert effort.matches < SIZE / 24
    assert effort.tested < 2 * SIZE
    assert not [unit for unit in left if Masker(SCANNER, b"k").mask(unit)[1]]


def test_a_long_line_is_asked_once_whether_it_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"api_key = {some(ALNUM, 14)(R)}_{'w ' * 90}" for _ in range(SIZE // 205))
    effort = Effort(monkeypatch)
    SCANNER.find(text)
    assert effort.tested < 2 * SIZE


def test_only_the_text_around_masked_secrets_is_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"{'plain words ' * 2000}\nghp_{some(ALNUM, 36)(R)}\n" for _ in range(8)).encode()
    searched = []
    find = Scanner._find

    def recorded(scanner: Scanner, part: bytes) -> object:
        searched.append(len(part))
        return find(scanner, part)

    monkeypatch.setattr(Scanner, "_find", recorded)
    masked, counts = Masker(SCANNER, b"k").mask(text)
    assert counts.total() == len(MARK.findall(masked)) == 8
    assert sum(searched) < 1.2 * len(text)


def test_a_run_of_secrets_ends_where_the_secrets_end() -> None:
    text = f"{'before ' * 50}{''.join(HOSTILE['passwords']() for _ in range(400))}{' after' * 1000}"
    masked = Masker(SCANNER, b"k").mask(text)[0]
    assert masked.startswith("before " * 50)
    assert masked.endswith(" after" * 800)
    assert "A1b2" not in masked


def test_what_was_masked_before_is_not_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    masker = Masker(SCANNER, b"k")
    texts = [f"{'plain ' * 100} ghp_{some(ALNUM, 36)(R)}", "plain " * 100]
    first = [masker.mask(text) for text in texts]
    monkeypatch.setattr(Scanner, "_find", None)
    assert [masker.mask(text) for text in texts] == first


def test_the_cache_is_bounded_and_forgets_the_oldest() -> None:
    cache = mask_cache.MaskCache(most_bytes=20_000)
    for number in range(100):
        cache.keep(bytes([number]), mask_cache.Masked(b"x" * 800, ()))
    kept = [number for number in range(100) if cache.find(bytes([number]))]
    assert kept == list(range(80, 100))
    cache.keep(b"large", mask_cache.Masked(b"x" * 10_000, ()))
    assert cache.find(b"large") is None
