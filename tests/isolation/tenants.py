"""Two tenants on one store, and every way in which one could ask for what is the other's.

The questions are made from the registry: each operation, with each of its parameters that can name something set to a
thing of the other tenant's. A parameter that is neither known to name something nor known to be harmless is an error,
so that a new operation cannot be forgotten here.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from blake3 import blake3

from clew.model.access import owner_of_everything
from clew.service import Context, call
from clew.service.kernel.registry import Operation, load
from clew.store import Store
from clew.store.jobs import add_job

ROOT = "person:root"

# Parameters that can name something of another tenant's, by the field of `Tenant` that has it.
NAMES = {
    "session": "session", "left": "session", "right": "session", "before": "session", "what": "session",
    "project": "project", "agent": "agent", "person": "person", "who": "person", "principal": "person",
    "file": "file", "path": "file", "query": "word", "key": "key", "grant": "grant", "fact": "fact",
    "decision": "decision", "name": "agent", "owner": "person", "machine": "machine", "model": "model",
    "sessions": "session", "parent": "session", "job": "job", "tag": "tag", "into": "project", "to": "project",
    "view": "canary", "sha": "sha", "bases": "session",
}  # fmt: skip
# Parameters that name nothing of anybody's. The value is what is asked with when one is required.
PLAIN: dict[str, Any] = {
    "drafts": [{"kind": "message_added", "role": "user", "text": "planted"}], "lease": 1, "value": "on",
    "tags": ["planted"], "note": "planted", "title": "planted",
    "kind": "retention", "choice": "planted", "text": "planted", "done": "planted", "digest": "00" * 32,
    "origin": "clew/nobody", "object": "00" * 32, "checkpoint": "none", "witnesses": [], "old": 0, "proof": [],
    "folder": "/nowhere", "paths": [], "wanted": [], "filters": "sort:cost",
    **dict.fromkeys(
        "metadata budget_tokens budget_usd private reason runtime outcome summary expect after upto limit at "
        "holder seconds keep_days hold with_forks form secrets role tool order flat when since until by written state "
        "failed label scopes days rights issuer subject instructions tools place match_runtime match_path match_name "
        "tokens usd unlimited scope evidence why rejected next open operation allowed content "
        "rule ruling older newer with_content checkpoints keys parent_source events blobs "
        "starred known progress media_type quiet_since empty remove overwrite "
        "top by_file dry_run with_text large data digests parts stretches start strict last backward sort".split()
    ),
}  # fmt: skip


class Tenant(NamedTuple):
    """One tenant: its own project, and a word of its own in everything it has."""

    canary: str
    project: str
    session: str
    child: str
    private: str
    person: str
    agent: str
    file: str
    word: str
    key: str
    grant: int
    fact: str
    decision: str
    job: str
    tag: str
    machine: str
    model: str
    secret: str
    sha: str

    def words(self) -> list[str]:
        """What nobody else may ever be shown; those who do not know its names are shown none of them either."""
        return [self.hidden, self.session, self.child, self.private, self.key, self.job]

    @property
    def hidden(self) -> str:
        """In all that the tenant wrote, and in no name that anybody asks with."""
        return f"{self.canary[::-1]}0hidden"


class Question(NamedTuple):
    operation: str
    arguments: dict[str, Any]


def tenant(store: Store, canary: str) -> Tenant:
    """Make a tenant: a project with sessions, an administrator with a key, an agent, settings, policies."""
    hidden, sha = f"{canary[::-1]}0hidden", blake3(canary.encode()).hexdigest(length=20)
    root = Context(store=store, unrestricted=store, principal=ROOT, grants=(owner_of_everything(ROOT),))
    project, person, agent = f"{canary}-project", f"person:{canary}", f"{canary}-agent"
    call(root, "principal_add", {"principal": person, "title": hidden})
    grant = call(root, "access_grant", {"who": person, "role": "admin", "project": project})
    key = call(root, "key_create", {"principal": person, "label": hidden})
    call(root, "team_add", {"name": f"{canary}-team", "principal": person})
    call(root, "agent_register", {"name": agent, "project": project, "instructions": hidden})
    call(root, "retention_set", {"project": project, "keep_days": 30, "agent": agent})
    call(root, "setting_set", {"project": project, "name": "audit_reads", "value": "on"})
    me = Context(store=store, unrestricted=store, principal=person, grants=(owner_of_everything(person),))
    ids = [
        call(me, "open", {"project": project, "agent": agent, "title": f"{canary} {hidden} {n}", "private": n == 1}).id
        for n in range(2)
    ]
    file, word, fact, decision = f"src/{canary}.py", f"{canary}word", f"{canary}fact", f"{canary}decision"
    for number, id in enumerate(ids):
        # Each at a minute of its own, so that what is sorted by time is always sorted alike.
        at = 1_790_000_000_000_000 + number * 60_000_000
        drafts: list[dict[str, Any]] = [
            {"kind": "message_added", "role": "user", "text": f"please {word} {hidden}"},
            {"kind": "call_made", "call": "1", "tool": f"{canary}-tool", "input": {"file_path": file}},
            {"kind": "call_returned", "call": "1", "output": hidden, "failed": True},
            {"kind": "usage_counted", "usage": {"input": 777_777}, "model": f"{canary}-model", "message": f"{id}-m"},
            {"kind": "runtime_attached", "runtime": "codex", "machine": f"{canary}-box", "cwd": f"/{canary}"},
            {"kind": "fact_learned", "fact": fact, "text": f"{word} is {hidden}"},
            {"kind": "decision_made", "decision": decision, "choice": f"{word} chosen", "why": hidden},
            {"kind": "commits_made", "commits": [sha], "branch": hidden, "folder": f"/{hidden}"},
        ]  # fmt: skip
        call(me, "append", {"session": id, "drafts": [{**draft, "said_at": at} for draft in drafts]})
    for id in ids:
        call(me, "tag", {"session": id, "tags": [f"{canary}-tag"]})
        call(me, "star", {"session": id})
        call(me, "note", {"session": id, "text": hidden})
    call(me, "view_save", {"name": canary, "filters": f"tag:{hidden}"})
    child = call(me, "fork", {"session": ids[0], "title": hidden}).id
    job = add_job(store, "retention", project=project, key=hidden)
    return Tenant(
        canary=canary, project=project, session=ids[0], child=child, private=ids[1], person=person, agent=agent,
        file=file, word=word, key=key.id, grant=grant.id, fact=fact, decision=decision, job=job, tag=f"{canary}-tag",
        machine=f"{canary}-box", model=f"{canary}-model", secret=key.key, sha=sha,
    )  # fmt: skip


def covered(operation: Operation) -> None:
    """Every parameter is known here, one way or the other."""
    for parameter in operation.parameters:
        known = parameter.is_session or parameter.name in NAMES or parameter.name in PLAIN
        assert known, f"say in tests/isolation/tenants.py what {parameter.name} of {operation.name} can name"


def questions(mine: Tenant, other: Tenant) -> Iterator[Question]:
    """Every operation as it is, and with each thing it can name swapped for the other tenant's.

    The order is that of the modules, whichever of them another test imported first: what is asked changes the answers.
    """
    for operation in sorted(load().values(), key=lambda one: (one.run.__module__, one.run.__code__.co_firstlineno)):
        if not operation.route:
            continue
        covered(operation)
        own = {p.name: _value(p.name, mine) for p in operation.parameters if p.required}
        yield Question(operation.name, own)
        for parameter in operation.parameters:
            if parameter.is_session or parameter.name in NAMES:
                for value in _swapped(parameter.name, other):
                    yield Question(operation.name, {**own, parameter.name: value})


def _value(name: str, whose: Tenant) -> Any:
    return getattr(whose, NAMES[name]) if name in NAMES else PLAIN[name]


def _swapped(name: str, other: Tenant) -> list[Any]:
    field = NAMES.get(name, "session")
    if field == "session":
        found: list[Any] = [other.session, other.session[:9], other.private]
        if name in ("sessions", "bases"):
            return [found]
        return [*found, other.project] if name == "what" else found
    return [getattr(other, field)]
