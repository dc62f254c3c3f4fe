"""A session in which every text that can be stored attacks whoever looks at it."""

import os
import typing
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from clew.model import events as e
from clew.model.session import Session
from clew.service import Context, call
from support.talks import add, opened

HTML = '"\'><script>window.hacked=1;alert(1)</script><img src=x onerror="window.hacked=1"></title></textarea></style>'
SVG = '<svg onload="window.hacked=1"><a xlink:href="javascript:window.hacked=1"><text>x</text></a></svg>'
LINKS = (
    "[a](javascript:window.hacked=1) [b](data:text/html,<script>window.hacked=1</script>) [c](vbscript:x) "
    "![d](https://evil.example/d.png) ![e](//evil.example/e.png) <javascript:window.hacked=1> [f]( javascript:1) "
    "[g](https://evil.example/g) [h](JaVaScRiPt:window.hacked=1) [i](&#106;avascript:window.hacked=1)\n\n"
    "[ref]: javascript:window.hacked=1\n\n[ref]\n\n<iframe src=https://evil.example></iframe>\n\n<style>*{display:none}</style>"
)
CONTROLS = (
    "\x1b[31mred\x1b[0m\x1b]8;;https://evil.example\x07link\x1b]8;;\x07\x1b]0;title\x07 "
    "\u202eesrever\u202c \u2066x \x07\x9b31m"
)
TEMPLATE = "{{ 7*7 }} {% include 'x' %} ${7*7} #{7*7}"
HX = '<div hx-get="https://evil.example" hx-trigger="load" hx-on:click="window.hacked=1"></div>'
EVIL = f"{HTML}{SVG}{CONTROLS}{TEMPLATE}{HX}"
DEEP = tuple(text.replace("/", "\u2044") for text in (SVG[:200], HTML[:80], CONTROLS[:60]))
LONG_WORD = "w" * 4_000
LONG_LINE = "0123456789" * 1_000_000


def hostile_session(context: Context) -> Session:
    session = opened(context, title=EVIL, agent=EVIL[:190], project=f"<b onclick=alert(1)>{SVG[:100]}")
    where = {"cwd": EVIL, "machine": EVIL, "branch": EVIL, "native": EVIL}
    add(context, session, e.RuntimeAttached(runtime='x"><img src=x>', **where))
    edit = {"file_path": EVIL, "old_string": EVIL, "new_string": HTML + LONG_WORD}
    bodies: list[Any] = [
        e.MessageAdded(role=EVIL, text=f"{EVIL}\0", model=EVIL),
        e.MessageAdded(role="user", text=LINKS),
        e.MessageAdded(role="user", text=f"```{HTML}\n{HTML}\n```\n\n{'> ' * 300}deep\n\n{'*' * 500}\n\n{'[' * 500}"),
        e.MessageAdded(role="assistant", model=EVIL, parts=(e.TextPart(text=EVIL), e.ThinkingPart(text=LINKS))),
        e.MessageAdded(role="assistant", text=LONG_WORD, side=EVIL),
        e.MessageAdded(role="system", text=LINKS + EVIL),
        *_call("1", EVIL, {EVIL: EVIL}, EVIL, failed=True),
        *_call("2", "Edit", edit, LINKS),
        *_call("3", "Bash", {"command": EVIL + "\n" + CONTROLS}, CONTROLS * 100),
        *_call("4", LONG_WORD, {"command": LONG_WORD}, LONG_LINE),
        e.CallMade(call="5", tool="x", input=_json("not an object <script>")),
        e.CallReturned(call="nowhere", output=_json(EVIL), failed=True),
        e.FactLearned(fact="f", text=EVIL, evidence=(1, 2)),
        e.DecisionMade(decision="d", choice=EVIL, why=LINKS),
        e.ProgressNoted(done=EVIL, next=LINKS),
        e.Compacted(summary=LINKS + EVIL),
        e.Opaque(kind="evil.kind", raw=msgspec.json.encode({"x": EVIL}).decode()),
        e.HandoffOffered(handoff=EVIL, to=EVIL, brief=EVIL),
        e.MessageAdded(role="user", text=LONG_LINE),
    ]
    add(context, session, *bodies)
    add(context, session, e.Draft(body=e.MessageAdded(role="user", text="far in the future"), said_at=2**62))
    call(context, "principal_add", {"principal": "mallory", "title": f"{HTML[:90]}{SVG[:90]}"})
    call(context, "key_create", {"principal": "mallory", "label": SVG[:100], "project": HTML[:60]})
    call(context, "access_grant", {"who": "team:<b>x</b>", "role": "viewer", "project": f"{SVG[:100]}"})
    add(context, session, *every_kind())
    _acted_on(context, session)
    _kept(context, session)
    return session


def _kept(context: Context, session: Session) -> None:
    """Files whose names and contents attack, in two snapshots and in a fork."""
    folder = Path(f"{context.home}-hostile files")
    below = folder.joinpath(*DEEP)
    below.mkdir(parents=True)
    for name in ("a.html", "{{ 7*7 }}.py", "-rf.md"):
        (below / name).write_text(EVIL + LINKS)
    (folder / os.fsdecode(b"caf\xe9\xff.png")).write_text(SVG)
    (folder / "x.svg").write_text(SVG)
    (folder / "long.js").write_text(f"{LONG_LINE}\n")
    (folder / "line.js").write_text("<b>" + "0123456789" * 60_000)
    (folder / "mixed.txt").write_bytes(b"caf\xe9 \xff\xfe" + EVIL.encode())
    (folder / "to").symlink_to("/<script>window.hacked=1<")
    call(context, "workspace_snapshot", {"session": session.id, "folder": str(folder), "label": EVIL[:400]})
    (below / "a.html").write_text(HTML)
    (folder / "line.js").unlink()
    call(context, "workspace_snapshot", {"session": session.id, "folder": str(folder), "label": f"second {HTML[:90]}"})


def every_kind() -> list[e.Body]:
    """A body of each kind that a caller may write, with an attack in each of its texts; a new kind comes by itself."""
    # It would take back what attacks.
    return [_hostile(kind) for kind in e.KINDS.values() if not kind.reserved and kind is not e.Rewound]


def _hostile(kind: type[e.Body]) -> e.Body:
    # Each kind has names of its own, so that none takes back what another one wrote.
    text = f"{EVIL} {kind.kind}"
    fields = {field.name: _attack(field.name, field.type, text) for field in msgspec.structs.fields(kind)}
    return kind(**{name: value for name, value in fields.items() if value is not None})


def _attack(name: str, type: Any, text: str) -> Any:
    """What attacks in a field of this type; None leaves its default."""
    if name == "tags":  # The alphabet of tags has no tag of HTML.
        return ("hostile",)
    values = {
        str: text, int: 1, bool: True, Raw: _json({EVIL: [EVIL, LINKS]}), tuple[str, ...]: (EVIL, LINKS),
        tuple[int, ...]: (1, 2), e.Usage: e.Usage(input=1), tuple[e.Touch, ...]: (e.Touch(what=EVIL, how="write"),),
        tuple[e.Part, ...]: (e.TextPart(text=EVIL), e.ThinkingPart(text=EVIL, signature=EVIL)),
    }  # fmt: skip
    return values.get(type) if typing.get_origin(type) is not typing.Annotated else ""


def _acted_on(context: Context, session: Session) -> None:
    """What an operation writes of what a person says."""
    for operation, arguments in (
        ("note", {"text": EVIL}), ("remember", {"text": EVIL, "scope": "project"}),
        ("pause", {"reason": EVIL}), ("resume", {"reason": EVIL}),
    ):  # fmt: skip
        call(context, operation, {"session": session.id, **arguments})
    fork = call(context, "fork", {"session": session.id, "at": 5, "title": EVIL})
    call(context, "close", {"session": fork.id, "outcome": "failed", "summary": EVIL + LINKS})


def _call(id: str, tool: str, values: Any, output: Any, *, failed: bool = False) -> list[e.Body]:
    return [
        e.CallMade(call=id, tool=tool, input=_json(values)),
        e.CallReturned(call=id, output=_json(output), failed=failed),
    ]


def _json(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))
