"""The pages of clew and of agentsview on the same sessions, in the same browser, in turns."""

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, BrowserContext, Page
from rich.table import Table
from search import Bar, agentsview_served, p50
from transcripts import make
from web_browser import opened, settle, visitor
from web_server import Note, Served

import clew
from capture import Subject

LONG = 5_000
KINDS = ("list of sessions", "search, from the last letter", "long session")

# From the moment when a box holds the words until the results have them.
_FOUND = """([box, results, words]) => new Promise((resolve, reject) => {
  const holds = () => [...document.querySelectorAll(results)].some((one) => one.textContent.includes(words));
  const timer = setTimeout(() => reject(new Error(`nothing has ${words}`)), 60000);
  const watcher = new MutationObserver(() => {
    if (!holds()) return;
    watcher.disconnect();
    clearTimeout(timer);
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - began)));
  });
  watcher.observe(document, { childList: true, subtree: true, characterData: true });
  const input = document.querySelector(box);
  const began = performance.now();
  input.value = words;
  input.dispatchEvent(new Event("input", { bubbles: true }));
})"""


class Program(NamedTuple):
    """Where a program shows what, in its own page."""

    name: str
    address: str
    list: str
    row: str
    session: str
    message: str
    searching: Callable[[Page, str, str], float]


def beside(chromium: Browser, work: Path, sessions: int, rounds: int, note: Note) -> tuple[Table, list[Bar]]:
    with tempfile.TemporaryDirectory(dir=work) as scratch:
        corpus = Path(scratch) / "corpus"
        make(corpus, sessions, long=LONG)
        note(f"clew takes {sessions:,} sessions in")
        subject = Subject("clew", Path(scratch) / "clew", corpus)
        subject.run()
        with clew.connect(home=subject.data) as plane:
            plane.search("warm")
            [ours] = plane.sessions(limit=1)
        [theirs] = [path.stem for path in corpus.rglob("*.jsonl") if path.stat().st_size > 1_000_000]
        note(f"agentsview takes {sessions:,} sessions in")
        with Served(subject.data) as served, agentsview_served(Path(scratch) / "agentsview", corpus) as address:
            programs = (
                Program("clew", served.address, "/sessions", "tr[data-row]", f"/sessions/{ours.id}",
                        "#transcript [id^=e]", _search_ours),
                Program("agentsview", address, "/", ".session-list-scroll > div > div", f"/sessions/{theirs}",
                        ".message-body", _search_theirs),
            )  # fmt: skip
            return _raced(chromium, programs, sessions, rounds, note)


def _raced(
    chromium: Browser, programs: tuple[Program, ...], sessions: int, rounds: int, note: Note
) -> tuple[Table, list[Bar]]:
    times: dict[str, dict[str, list[float]]] = {name: {kind: [] for kind in KINDS} for name, *_ in programs}
    needles = [f"needle{number:05d}" for number in random.Random(1).sample(range(sessions), rounds + 1)]
    people = {program.name: visitor(chromium, program.address) for program in programs}
    # The first round fills the caches of both and is not counted.
    for round, word in enumerate(needles):
        note(f"round {round} of {rounds}")
        for program in programs if round % 2 else programs[::-1]:
            for kind, value in zip(KINDS, _measured(program, people[program.name], word), strict=True):
                if round:
                    times[program.name][kind].append(value)
    for person in people.values():
        person.close()
    table = Table(title=f"{sessions:,} sessions of 100 messages and one of {LONG:,}; median until shown, in ms")
    for column in ("program", *KINDS):
        table.add_column(column, justify="left" if column == "program" else "right")
    for name, kinds in times.items():
        table.add_row(name, *(f"{p50(taken):.0f}" for taken in kinds.values()))
    return table, [_bar(kind, times["clew"][kind], times["agentsview"][kind]) for kind in KINDS]


def _measured(program: Program, person: BrowserContext, word: str) -> tuple[float, float, float]:
    listed = opened(person, program.address + program.list, program.row)["shown"]
    page = person.new_page()
    found = program.searching(page, program.address, word)
    page.close()
    long = opened(person, program.address + program.session, program.message)["shown"]
    return listed, found, long


def _search_ours(page: Page, address: str, word: str) -> float:
    page.goto(f"{address}/search?q=warm")
    settle(page)
    if page.locator("[data-results]").count():
        return float(page.evaluate(_FOUND, ["#find", "[data-results]", word]))
    page.close()
    return opened(page.context, f"{address}/search?q={word}", ".hits mark")["shown"]


def _search_theirs(page: Page, address: str, word: str) -> float:
    page.goto(address)
    page.wait_for_selector(".session-list-scroll > div > div")
    page.keyboard.press("Control+k")
    page.wait_for_selector(".palette-input")
    settle(page)
    return float(page.evaluate(_FOUND, [".palette-input", ".palette-results", word]))


def _bar(kind: str, ours: list[float], theirs: list[float]) -> Bar:
    ratio = p50([mine / other for mine, other in zip(ours, theirs, strict=True)])
    return (f"{kind}, at least as fast as agentsview", f"{ratio:.2f}x", ratio <= 1)
