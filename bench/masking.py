"""How fast secrets are looked for: `find` and `mask` against a bare RE2 pass. `python bench/masking.py [PATH...]`.

The texts are transcripts of the files or folders named, or made up ones, in JSON lines. The bare pass runs the one
expression of all keywords over the same bytes: what reading the text costs, before anything is known about it. Small is
an event at a time, as scans and captures do it; whole is a file at a time, as an export does. Then come texts that
made to be slow. The promise is 10 MB/s for all of them. The cache of masked texts is left out.
"""

import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from string import ascii_letters, digits

from clew.secrets.masking import Masker
from clew.secrets.patterns import any_of_words, compiled
from clew.secrets.rules import bundled
from clew.secrets.scanner import Scanner

WORDS = (
    "the token of a session key api auth secret value import return function class test file path read write error "
    "line \n    def main(self): \n```python\n {'key': value} https://example.com/a/b 0x1f self.client.get(url) == None"
).split(" ")


def made_up(megabytes: float) -> bytes:
    r = random.Random(1)
    lines, size = [], 0
    while size < megabytes * 1e6:
        output = json.dumps({"stdout": " ".join(r.choices(WORDS, k=r.randrange(20, 600)))})
        line = json.dumps({"type": "tool_result", "uuid": r.randbytes(16).hex(), "content": output})
        lines.append(line)
        size += len(line)
    return "\n".join(lines).encode()


def some(r: random.Random, size: int) -> str:
    return "".join(r.choices(ascii_letters + digits, k=size))


def hostile(megabytes: float) -> dict[str, bytes]:
    """Texts that are slow to mask: nothing but secrets, what is nearly one, marks, keywords, escapes."""
    r = random.Random(2)
    words = " ".join(sorted({word for rule in bundled().rules for word in rule.keywords}))
    made: dict[str, Callable[[], str]] = {
        "one password": lambda: "password=A1b2C3d4E5f6;",
        "passwords": lambda: f"password=A1b2{some(r, 8)};",
        "passwords in JSON": lambda: f'"password=A1b2{some(r, 8)};",',
        "no passwords": lambda: f"password={some(r, 9).lower()};",
        "tokens": lambda: f"ghp_{some(r, 36)} ",
        "URLs": lambda: f"http://u:A1b2{some(r, 8)}@h/ ",
        "marks": lambda: "[REDACTED:password:01234567]",
        "marks, passwords": lambda: f"[REDACTED:password:01234567] password=A1b2{some(r, 8)};",
        "keywords": lambda: words,
        "escapes": lambda: "\\u0041\\n",
        "base64": lambda: some(r, 77),
    }
    texts = {}
    for name, unit in made.items():
        units, size = [], 0
        while size < megabytes * 1e6:
            units.append(unit())
            size += len(units[-1])
        texts[name] = "".join(units).encode()
    texts["passwords in JSON"] = b"[%b0]" % texts["passwords in JSON"]
    return texts


def texts(paths: Iterable[str]) -> list[bytes]:
    found = [path for name in paths for path in ([Path(name)] if os.path.isfile(name) else Path(name).rglob("*"))]
    return [path.read_bytes() for path in found if path.is_file()] or [made_up(6)]


def rate(run: Callable[[bytes], object], parts: list[bytes], rounds: int = 3) -> float:
    """Megabytes a second, the best of a few rounds."""
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        for part in parts:
            run(part)
        taken.append(time.perf_counter() - began)
    return sum(map(len, parts)) / 1e6 / min(taken)


def afresh(masker: Masker) -> Callable[[bytes], object]:
    """Masking without the cache."""
    return masker._marked_afresh


def main(paths: list[str]) -> None:
    began = time.perf_counter()
    scanner = Scanner(bundled())
    print(f"loading the rules  {(time.perf_counter() - began) * 1000:6.1f} ms")
    masker = Masker(scanner, b"key")
    whole = texts(paths)
    small = [line for text in whole for line in text.split(b"\n") if line]
    words = compiled(any_of_words(sorted({word for rule in scanner.rules.values() for word in rule.keywords})))
    print(f"{sum(map(len, whole)) / 1e6:.1f} MB, {len(small):,} lines")
    for name, parts in (("small", small), ("whole", whole)):
        bare = rate(lambda text: sum(1 for _ in words.finditer(text)), parts)
        for what, run in (("find", scanner.find), ("mask", afresh(masker))):
            reached = rate(run, parts)
            print(f"{name} {what:5} {reached:7.1f} MB/s   bare RE2 {bare:7.1f} MB/s   {reached / bare:5.1%}")
    for name, text in hostile(1).items():
        print(f"{name:18} {rate(afresh(masker), [text]):7.1f} MB/s")


if __name__ == "__main__":
    main(sys.argv[1:])
