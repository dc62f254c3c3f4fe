"""Logs made up from a seed, and what a plain look through them finds: search must find the same, and no more."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Raw

from clew.model.access import owner_of_everything
from clew.model.events import (
    Body,
    CallMade,
    CallReturned,
    Draft,
    FactLearned,
    MessageAdded,
    Opaque,
    RuntimeAttached,
    TurnEnded,
    Usage,
)
from clew.model.session import Session
from clew.service import Context, call
from clew.store import Store
from clew.store.log.opening import Forking, Opening
from support.wording import EXAMPLES, follow, parts

ME = "person:ada"
# 2020-05-04, a Monday, 00:00 UTC.
MONDAY = 1_588_550_400_000_000
HOUR = 3_600_000_000
DAY = 24 * HOUR

VOCABULARY = (
    "lock", "locked", "error", "database is locked", "getUserName", "get_user", "src/app/billing.py:12", "Café",
    "cafe\u0301", "東京タワー", "東京", "한국어", "naïve", "Й", "-test", '"quoted"', "1.5", "✅done",
)  # fmt: skip
PEOPLE = (ME, "person:Bob", "agent:x")
PATHS = ("src/app/billing.py", "/home/ada/shop/src/app/billing.py", "README.md", "C:\\shop\\Billing.py")


def on(store: Store, home: str = "") -> Context:
    return Context(store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),), home=home)


def opened(context: Context, *drafts: Body | Opaque | Draft, actor: str = ME, **about: Any) -> Session:
    """A new session with some events."""
    made = context.store.open(Opening(**{"project": "default", **about}), actor=actor)
    add(context, made, *drafts, actor=actor)
    return made


def add(context: Context, session: Session, *drafts: Body | Opaque | Draft, actor: str = ME) -> list[int]:
    """Append; returns the seqs."""
    ready = [draft if isinstance(draft, Draft) else Draft(body=draft) for draft in drafts]
    return context.store.append(session, ready, actor=actor).seqs


def asked(text: str, at: int | None = None) -> Draft:
    return Draft(body=MessageAdded(role="user", text=text), said_at=at)


def search(context: Context, query: str = "", **filters: Any) -> Any:
    return call(context, "search", {"query": query, **filters})


def pages(context: Context, query: str = "", *, between: Callable[[], object] = lambda: None, **filters: Any) -> Any:
    """Every page of a search, one after the other."""
    after = ""
    while True:
        page = search(context, query, after=after, **filters)
        yield page
        after = page.next
        if not after:
            return
        between()


def hits(context: Context, query: str = "", **filters: Any) -> list[tuple[str, int]]:
    """Every hit that has all the words, one after the other, as session and seq."""
    found = pages(context, query, **{"flat": True, "limit": 200, **filters})
    return [(hit.session, hit.seq) for page in found for hit in page.hits if not page.partial]


# Made up --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Said:
    """A passage as it went into the log."""

    session: str
    seq: int
    texts: tuple[str, ...]
    role: str
    person: str
    runtime: str
    at: int | None
    """None is now."""
    tool: str = ""
    outcome: str = ""


@dataclass(frozen=True)
class Asked:
    """A query: words that stand next to each other, the last of them perhaps only begun, and some to leave out."""

    wanted: tuple[tuple[str, ...], ...] = ()
    begun: bool = False
    unwanted: tuple[tuple[str, ...], ...] = ()
    instead: tuple[str, ...] = ()
    """What is as good as the last of `wanted`."""

    @property
    def typed(self) -> str:
        wanted = [f'"{" ".join(words)}"' for words in self.wanted]
        if self.begun:
            wanted[-1] += "*"
        if self.instead:
            wanted.append(f'OR "{" ".join(self.instead)}"')
        return " ".join((*wanted, *(f'-"{" ".join(words)}"' for words in self.unwanted)))

    @property
    def is_exact(self) -> bool:
        return all(len(parts(" ".join(words))) == 1 for words in (*self.wanted, *self.unwanted, self.instead or ("a",)))

    def has(self, texts: tuple[str, ...]) -> list[bool]:
        """Whether it has each of what is wanted; nothing counts where what is unwanted is said."""
        has = [
            _has(texts, words, begun=self.begun and i == len(self.wanted) - 1) for i, words in enumerate(self.wanted)
        ]
        if self.instead:
            has[-1] = has[-1] or _has(texts, self.instead)
        is_out = any(_has(texts, words) for words in self.unwanted)
        return [one and not is_out for one in has]

    def finds(self, texts: tuple[str, ...]) -> bool:
        return all(self.has(texts)) and not any(_has(texts, words) for words in self.unwanted)


def _has(texts: tuple[str, ...], words: tuple[str, ...], *, begun: bool = False) -> bool:
    return any(follow(text, " ".join(words), begun=begun) for text in texts)


@dataclass
class Log:
    """Sessions that were made up, and all that was said in them."""

    context: Context
    chance: random.Random
    sessions: list[Session] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    state: dict[str, str] = field(default_factory=dict)
    touched: dict[str, set[str]] = field(default_factory=dict)
    runtime: dict[str, str] = field(default_factory=dict)
    last_at: dict[str, int] = field(default_factory=dict)

    def look(self, asked: Asked, **filters: Any) -> list[tuple[str, int]]:
        """The passages that answer, by reading all of them."""
        return sorted(
            (one.session, one.seq) for one in self.said if asked.finds(one.texts) and self._passes(one, filters)
        )

    def look_partly(self, asked: Asked, **filters: Any) -> list[tuple[str, int]]:
        """The passages that have at least one of the things that are wanted."""
        return [(one.session, one.seq) for one in self.said if any(asked.has(one.texts)) and self._passes(one, filters)]

    def _passes(self, one: Said, filters: dict[str, Any]) -> bool:
        about = next(session for session in self.sessions if session.id == one.session)
        is_so: dict[str, Callable[[Any], bool]] = {
            "runtime": lambda value: one.runtime.casefold() == value.casefold(),
            "agent": lambda value: about.agent.casefold() == value.casefold(),
            "project": lambda value: about.project == value,
            "person": lambda value: one.person.casefold() in (value.casefold(), f"person:{value.casefold()}"),
            "role": lambda value: one.role == value,
            "tool": lambda value: one.tool.casefold() == value.casefold(),
            "outcome": lambda value: one.outcome == value,
            "state": lambda value: self.state[one.session] == value,
            "session": lambda value: one.session == value,
            "file": lambda value: any(_ends(path, value) for path in self.touched[one.session]),
            "since": lambda value: one.at is None or one.at >= _start(value),
            "until": lambda value: one.at is not None and one.at < _start(value) + DAY,
        }
        return all(is_so[name](value) for name, value in filters.items())

    def asks(self) -> Asked:
        """A query of which something is probably found."""
        chance = self.chance
        streams = [stream for one in chance.sample(self.said, 3) for text in one.texts if (stream := parts(text))]
        stream = chance.choice(streams or [["lock"]])
        first = chance.randrange(len(stream))
        kind = chance.choice(("word", "words", "phrase", "prefix", "without", "either", "cased", "nothing"))
        word = stream[first]
        if kind == "either":
            return Asked(((word,),), instead=(chance.choice(streams or [["lock"]])[0],))
        if kind == "cased":
            # As the text has it or with other capitals.
            written = chance.choice(("getUserName", "GetUser", "getusername", "GETUSERNAME", "Get_User", "Billing.py"))
            return Asked(((written,),), begun=chance.random() < 0.3)
        if kind == "word":
            return Asked(((word,),))
        if kind == "words":
            return Asked(((word,), (chance.choice(stream),)))
        if kind == "phrase":
            return Asked((tuple(stream[first : first + chance.randint(2, 4)]),), begun=chance.random() < 0.3)
        if kind == "prefix":
            return Asked(((word[: chance.randint(1, len(word))],),), begun=True)
        if kind == "without":
            left_out = tuple(chance.choice(streams or [["lock"]])[: chance.randint(1, 2)])
            return Asked(((word,),), unwanted=(left_out,))
        return Asked((("nobody", "said", "this"),))

    def narrows(self) -> dict[str, Any]:
        """Some filters."""
        one = self.chance.choice(self.said)
        about = next(session for session in self.sessions if session.id == one.session)
        all_of_them = {
            "runtime": one.runtime or "codex", "agent": about.agent or "reviewer", "project": about.project,
            "person": one.person.removeprefix("person:"), "role": one.role, "tool": one.tool or "Bash",
            "outcome": one.outcome or "error", "state": self.state[one.session], "session": one.session,
            "file": self.chance.choice(("billing.py", "app/billing.py", "README.md", "/x/src/app/billing.py")),
            "since": self.chance.choice(("2020-05-04", "2020-05-05")), "until": "2020-05-05",
        }  # fmt: skip
        names = self.chance.sample(sorted(all_of_them), self.chance.choice((0, 0, 1, 1, 1, 2, 3)))
        return {name: all_of_them[name] for name in names}


def _start(day: str) -> int:
    return MONDAY + (int(day[-2:]) - 4) * DAY


def _ends(path: str, wanted: str) -> bool:
    one, other = (text.replace("\\", "/").casefold() for text in (path, wanted))
    return f"/{one}".endswith(f"/{other}") or (other.startswith("/") and other.endswith(f"/{one}"))


def make(context: Context, seed: int, *, sessions: int = 8, events: int = 90) -> Log:
    """Make a log up: the same for the same seed, whichever database it goes into."""
    log = Log(context, random.Random(seed))
    for number in range(sessions):
        _open(log, number)
    for _ in range(events):
        _say(log, log.chance.choice(log.sessions))
        if log.chance.random() < 0.1:
            call(context, "views_step", {})
    for session, step in zip(log.sessions, ("pause", "close", "close"), strict=False):
        call(context, step, {"session": session.id})
        if step == "close":
            seq = context.store.head(session).head
            log.said.append(Said(session.id, seq, ("completed",), "noted", ME, log.runtime[session.id], None))
        log.state[session.id] = {"pause": "paused", "close": "closed"}[step]
    return log


def _open(log: Log, number: int) -> None:
    chance = log.chance
    if number and chance.random() < 0.2:
        parent = chance.choice(log.sessions)
        session = log.context.store.open(Forking(parent=parent, title=f"fork{number} lock"), actor=ME)
        runtime = _own_runtime(parent)
        seq = session.upto + 1
    else:
        runtime = chance.choice(("", "codex", "claude-code"))
        opening = Opening(
            project=chance.choice(("default", "shop")), agent=chance.choice(("", "reviewer", "Builder")),
            title=f"talk{number} {chance.choice(VOCABULARY)}",
            metadata=msgspec.json.encode({"runtime": runtime}).decode(),
        )  # fmt: skip
        session = log.context.store.open(opening, actor=ME)
        seq = 1
    log.sessions.append(session)
    log.said.append(Said(session.id, seq, (session.title,), "noted", ME, runtime, None))
    log.state[session.id] = "opened"
    log.touched[session.id] = set()
    log.runtime[session.id] = runtime


def _own_runtime(session: Session) -> str:
    return str(msgspec.json.decode(session.metadata)["runtime"])


def _say(log: Log, session: Session) -> None:
    chance, about = log.chance, {"tool": "", "outcome": ""}
    text = " ".join(chance.choice((*VOCABULARY, chance.choice(EXAMPLES))) for _ in range(chance.randint(1, 4)))
    person = chance.choice(PEOPLE)
    kind = chance.choice(("asked", "answered", "system", "call", "call", "fact", "runtime", "opaque", "usage"))
    bodies: list[tuple[Body | Opaque, str, tuple[str, ...], dict[str, str]]] = []
    if kind == "call":
        tool, path, failed = chance.choice(("Bash", "Read")), chance.choice(PATHS), chance.random() < 0.4
        input = {"file_path": path} if tool == "Read" else {"command": text}
        made = CallMade(call=f"c{len(log.said)}", tool=tool, input=Raw(msgspec.json.encode(input)))
        gave = CallReturned(call=made.call, output=Raw(msgspec.json.encode([text, 7])), failed=failed)
        bodies.append((made, "run", (tool, *input.values()), {"tool": tool}))
        outcome = "error" if failed else "success"
        bodies.append((gave, "returned", (text, "7"), {"tool": tool, "outcome": outcome}))
        log.touched[session.id] |= {path} if tool == "Read" else set()
    elif kind == "runtime":
        log.runtime[session.id] = chance.choice(("codex", "Pi"))
        bodies.append((RuntimeAttached(runtime=log.runtime[session.id]), "", (), about))
    else:
        body, role = _PLAIN[kind](text)
        bodies.append((body, role, (text,) if role else (), about))
    for body, role, texts, more in bodies:
        draft = Draft(body=body, said_at=_when(log, session), source=f"s{len(log.said)}-{chance.random()}")
        [seq] = log.context.store.append(session, [draft], actor=person).seqs
        if role:
            at = log.last_at.get(session.id)
            log.said.append(Said(session.id, seq, texts, role, person, log.runtime[session.id], at, **more))
        if kind != "runtime":
            log.state[session.id] = "active"


_PLAIN: dict[str, Callable[[str], tuple[Body | Opaque, str]]] = {
    "asked": lambda text: (MessageAdded(role="user", text=text), "asked"),
    "answered": lambda text: (MessageAdded(role="assistant", text=text), "answered"),
    "system": lambda text: (MessageAdded(role="system", text=text), "noted"),
    "fact": lambda text: (FactLearned(fact="f", text=text), "noted"),
    "opaque": lambda text: (Opaque(kind="x.y", raw=msgspec.json.encode({"text": text}).decode()), ""),
    "usage": lambda text: (TurnEnded(usage=Usage(input=1), model=text[:20]), ""),
}


def _when(log: Log, session: Session) -> int | None:
    """When something is said; a record without a time of its own is as old as the one before it."""
    if session.id in log.last_at and log.chance.random() < 0.2:
        return None
    log.last_at[session.id] = MONDAY + log.chance.randrange(3 * DAY // 1_000_000) * 1_000_000
    return log.last_at[session.id]


def shuffled(log: Log, count: int) -> Iterator[tuple[Asked, dict[str, Any]]]:
    """So many queries, each with some filters."""
    for _ in range(count):
        yield log.asks(), log.narrows()
