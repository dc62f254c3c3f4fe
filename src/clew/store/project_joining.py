"""One project becomes part of another: because it gets another name, or because two are merged.

Sessions keep the project that they were opened in, which is a part of their chains. What changes is one row: it says
which project that one is part of now, and every name and filter is resolved through it. So an old name still works.
Grants, keys, policies and agents are on the name that the project has now.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from clew.model.errors import Conflict, NotFound
from clew.store.database.contract import Row, Transaction

if TYPE_CHECKING:
    from clew.store.store import Store


class Standing(NamedTuple):
    """What is set for a project: who has which rights, what it is kept like, and which agents are registered."""

    grants: list[Row]
    policies: set[tuple[str, int | None, int]]
    settings: dict[str, str]
    agents: set[str]


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """What changed besides the name, as the audit log calls it: the grants and keys that are on the other project now,
    and the grants that became superfluous."""

    changed: list[str]
    ended: list[str]


def standing_of(store: "Store", name: str) -> Standing:
    with store.database.read() as tx:
        return _standing(tx, name)


def rename(store: "Store", project: str, name: str) -> Joined:
    """Give a project another name, which no other project has or had."""
    with store.database.write() as tx:
        key, current = _locked(tx, [project, name])
        rows = tx.run("project_named", name=name)
        if rows and rows[0][0] != key:
            raise Conflict(f"there is a project {name!r} already; merge the two, or choose another name", project=name)
        into = [*tx.run("project_lock", name=name), *([] if rows else tx.run("project_new", name=name))]
        return _join(tx, key, current, int(into[0][0]), name)


def merge(store: "Store", project: str, into: str, *, strictest: Sequence[tuple[str, str]]) -> Joined:
    """Make a project a part of another. `strictest` are settings, and the values that hold if one of them has those."""
    with store.database.write() as tx:
        key, current = _locked(tx, [project, into])
        [(into_key, into_name)] = tx.run("project_named", name=into)
        if key == into_key:
            raise Conflict(f"{project!r} and {into!r} are one project already", project=into)
        if problem := why_not(_standing(tx, current), _standing(tx, into_name), current, into_name):
            raise Conflict(problem, project=into)
        return _join(tx, key, current, int(into_key), into_name, strictest)


def why_not(one: Standing, other: Standing, name: str, into: str) -> str:
    """Why two projects cannot be merged; empty if they can."""
    if one.policies != other.policies:
        # One policy would remove or hold conversations that it was not set for.
        return f"the retention policies of {name!r} and {into!r} differ; set the same for both, or remove them, first"
    if both := sorted(one.agents & other.agents):
        return f"agent {both[0]!r} is registered in both projects; remove one of the two first"
    rights = {(who, agent): (set(words.split()), until) for _, who, words, agent, until in other.grants}
    for id, who, words, agent, until in one.grants:
        has, ends = rights.get((who, agent), (set(words.split()), until))
        if not (has >= set(words.split()) and (ends == 0 or 0 < until <= ends)):
            return f"{who} has different rights on {name!r} and {into!r}; revoke grant {id} or the other one first"
    return ""


def _locked(tx: Transaction, names: Sequence[str]) -> tuple[int, str]:
    """The key and the name of the first of these projects; nobody else renames or merges any of them meanwhile."""
    known = {name: tx.run("project_named", name=name) for name in names}
    for name in sorted(set(names) | {rows[0][1] for rows in known.values() if rows}):
        tx.run("project_lock", name=name)
    rows = tx.run("project_named", name=names[0])
    if not rows:
        raise NotFound(f"no project {names[0]!r}", project=names[0])
    return int(rows[0][0]), rows[0][1]


def _join(
    tx: Transaction, key: int, name: str, into: int, into_name: str, strictest: Sequence[tuple[str, str]] = ()
) -> Joined:
    if key == into:
        return Joined(changed=[], ended=[])
    one, other = _standing(tx, name), _standing(tx, into_name)
    tx.run("project_join", project=key, into=into)
    ended = []
    placed = {(who, agent) for _, who, _, agent, _ in other.grants}
    changed = []
    for id, who, _, agent, _ in one.grants:
        if (who, agent) in placed:
            tx.run("grant_remove", id=id)
            ended.append(f"grant {id}")
        else:
            tx.run("grant_move", id=id, name=into_name)
            changed.append(f"grant {id}")
    changed += [f"credential {id}" for (id,) in tx.run("keys_move", old=name, name=into_name)]
    if other.policies:
        tx.run("policies_drop", old=name)  # They are the same.
    else:
        tx.run("policies_move", old=name, name=into_name)
    tx.run("agents_move", old=name, name=into_name)
    # The settings stay with the old name, too: a call that has begun still knows the project by that.
    for setting, value in _settings(one.settings, other.settings, strictest).items():
        tx.run("setting_set", project=into_name, name=setting, value=value)
    return Joined(changed=changed, ended=ended)


def _settings(one: dict[str, str], other: dict[str, str], strictest: Sequence[tuple[str, str]]) -> dict[str, str]:
    strict = {name: value for name, value in strictest if value in (one.get(name), other.get(name))}
    return one | other | strict


def _standing(tx: Transaction, name: str) -> Standing:
    return Standing(
        grants=tx.run("grants_on", name=name),
        policies={(agent, days, hold) for project, agent, days, hold in tx.run("policy_list") if project == name},
        settings={setting: value for project, setting, value in tx.run("settings") if project == name},
        agents={row[0] for row in tx.run("agents") if row[1] == name},
    )
