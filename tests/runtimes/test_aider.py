"""Aider: what is read from a chat history in Markdown."""

import json
from pathlib import PurePath

import pytest

from clew.model.conversation import conversation
from clew.model.events import MessageAdded, Opaque, RuntimeAttached, SessionTitled, Usage, UsageCounted
from clew.runtimes.adapters.aider import identify, recognises, split
from clew.runtimes.contract import micros
from support.transcripts import events, read

PATH = "/home/me/app/.aider.chat.history.md"
HISTORY = b"""
# aider chat started at 2026-11-16 10:00:00

> Aider v0.86.1  
> Main model: m-1 with diff edit format  
> Git repo: .git with 3 files  

#### /add a.txt  
> Added a.txt to the chat  

#### list the files  
####   
#### please  

Here they are:

```
> a quote in a file
# a heading
```

> Tokens: 12k sent, 1.5k received. Cost: $0.04 message, $0.11 session.  

#### thanks  

Welcome.

# aider chat started at 2026-11-16 11:00:00

> Aider v0.87.0  

#### again  
"""  # noqa: W291  # two blanks are Markdown's line break


def test_a_history_is_read() -> None:
    done = read("aider", HISTORY, path=PATH)
    native = identify(PurePath(PATH), b"").native
    told = [draft.body for draft in done.drafts if not isinstance(draft.body, Opaque)]
    answer = "Here they are:\n\n```\n> a quote in a file\n# a heading\n```"
    keys = [
        draft.source.partition("~")[0] for draft in done.drafts if draft.source and isinstance(draft.body, MessageAdded)
    ]
    assert told == [
        RuntimeAttached(runtime="aider", native=native),
        RuntimeAttached(runtime="aider", native=native, runtime_version="0.86.1"),
        MessageAdded(role="user", text="/add a.txt"),
        MessageAdded(role="user", text="list the files\n\nplease"),
        SessionTitled(title="list the files"),
        MessageAdded(role="assistant", text=answer, message=keys[2], model="m-1"),
        UsageCounted(usage=Usage(input=12_000, output=1_500, cost_micros=40_000), model="m-1"),
        MessageAdded(role="user", text="thanks"),
        MessageAdded(role="assistant", text="Welcome.", message=keys[4], model="m-1"),
        RuntimeAttached(runtime="aider", native=native, runtime_version="0.86.1"),
        RuntimeAttached(runtime="aider", native=native, runtime_version="0.87.0"),
        MessageAdded(role="user", text="again"),
    ]
    assert {draft.said_at for draft in done.drafts} == {micros("2026-11-16 10:00:00"), micros("2026-11-16 11:00:00")}
    opaque = [json.loads(draft.body.raw)["text"] for draft in done.drafts if isinstance(draft.body, Opaque)]
    assert opaque[0] == "Aider v0.86.1\nMain model: m-1 with diff edit format\nGit repo: .git with 3 files"
    assert len({draft.source for draft in done.drafts}) == len(done.drafts)


def test_growth_ends_in_the_same_conversation() -> None:
    whole = [draft.body for draft in conversation(events(read("aider", HISTORY, path=PATH).drafts))]
    drafts = []
    for end in (150, 200, 260, 300, 330, 400, len(HISTORY)):
        drafts += read("aider", HISTORY[:end], path=PATH).drafts
    assert [draft.body for draft in conversation(events(drafts))] == whole


def test_a_prompt_ends_an_answer_whose_fence_was_never_closed() -> None:
    data = b"# aider chat started at 2026-11-16 10:00:00\n\n#### a  \n\n```\nbroken off\n\n#### b  \n\n> said  \n"
    kinds = [(json.loads(record)["type"], json.loads(record)["text"]) for _, record in split(data)]
    assert kinds == [
        ("start", "2026-11-16 10:00:00"),
        ("user", "a"),
        ("assistant", "```\nbroken off"),
        ("user", "b"),
        ("program", "said"),
    ]


@pytest.mark.parametrize(
    ("line", "usage"),
    [
        ("Tokens: 5,212 sent, 1,030 received.", Usage(input=5212, output=1030)),
        (
            "Tokens: 8.2k sent, 3.0k cache hit, 1.1k received. Cost: $0.0066 message, $0.01 session.",
            Usage(input=5200, output=1100, cache_read=3000, cost_micros=6600),
        ),
        (
            # What is written to the cache is in what was sent twice; with both caches the cost has a line of its own.
            "Tokens: 14k sent, 4.1k cache write, 3.0k cache hit, 1.1k received.\nCost: $0.02 message, $0.05 session.",
            Usage(input=2800, output=1100, cache_read=3000, cache_write=4100, cost_micros=20_000),
        ),
        (
            # Rounding must not lead below nothing.
            "Tokens: 8.0k sent, 4.1k cache write, 12 received. Cost: $0.02 message, $0.05 session.",
            Usage(output=12, cache_write=4100, cost_micros=20_000),
        ),
        ("Tokens: 1.2M sent, 3 received", Usage(input=1_200_000, output=3)),
    ],
)
def test_tokens_are_counted_as_the_program_rounds_them(line: str, usage: Usage) -> None:
    done = read("aider", f"> {line}  \n".encode(), path=PATH)
    assert [draft.body.usage for draft in done.drafts if isinstance(draft.body, UsageCounted)] == [usage]


def test_a_cost_on_a_line_of_its_own_is_not_said_by_the_model() -> None:
    data = (
        b"#### a  \n\nDone.\n\n> Tokens: 9 sent, 2 cache write, 3 cache hit, 1 received.\n"
        b"Cost: $0.02 message, $0.05 session.  \n\n#### b  \n\nCost: $0.02 message, $0.05 session.  \n"
    )
    kinds = [(json.loads(record)["type"], json.loads(record)["text"].partition("\n")[2]) for _, record in split(data)]
    assert kinds == [
        ("user", ""),
        ("assistant", ""),
        ("program", "Cost: $0.02 message, $0.05 session."),
        ("user", ""),
        ("assistant", ""),
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\n\n", b"####", b"#### ", b">", b"> ", b"# aider chat started at ", b"\xff\xfe\n#### \xff",
        b"plain\r\n\r\n#### x\r\n",
        b"> Tokens: 1.2.3k sent, 4 received.", b"# aider chat started at 9999999\n\n> Aider v\n",
    ],
)  # fmt: skip
def test_odd_histories_are_read(data: bytes) -> None:
    done = read("aider", data, path=PATH)
    assert done.quarantined == 0
    assert done.records == len(list(split(data)))


def test_files_are_recognised_and_named() -> None:
    assert recognises(PurePath(PATH), HISTORY)
    assert not recognises(PurePath("/x/README.md"), b"# Something")
    one, other = identify(PurePath(PATH), b""), identify(PurePath("/srv/app/.aider.chat.history.md"), b"")
    assert one.project == other.project == "app"
    assert one.native != other.native
