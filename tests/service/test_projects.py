"""Another name for a project, two that become one, and folders that moved: every list and every right follows."""

from pathlib import Path
from typing import Any

import pytest

from clew.client import Plane
from clew.local import Local
from clew.model.access import owner_of_everything
from clew.model.errors import ClewError, Conflict, Denied, InvalidInput, NotFound
from clew.service import Context, call
from clew.service.access.authenticator import Authenticator
from clew.service.audit.reconcile import unexplained
from clew.service.audit.verify_log import examine
from clew.service.replication import remotes
from clew.store import Store, open_store
from clew.store.project_places import CapturedFrom, Place, settle
from store.crowd import at_once
from support.captures import capture

from capture.test_projects import project_in, projects, session_in  # isort: skip
import contextlib

from support.repositories import repository

ADA = "person:ada"
WORD = {"kind": "message_added", "role": "user", "text": "lighthouse"}
FACT = {"kind": "fact_learned", "text": "lighthouses are round", "fact": "f"}


@pytest.fixture
def owner(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    monkeypatch.delenv("CLEW_AUDIT_KEY", raising=False)
    grants = (owner_of_everything(ADA),)
    return Context(
        store=store, unrestricted=store, principal=ADA, grants=grants, machine="here", home=str(tmp_path / "home")
    )


def opened(by: Context, project: str, **more: Any) -> str:
    id: str = call(by, "open", {"project": project, **more}).id
    call(by, "append", {"session": id, "drafts": [WORD, FACT]})
    return id


def ask(by: Context, operation: str, /, **arguments: Any) -> Any:
    return call(by, operation, arguments)


def somebody(owner: Context, who: str) -> Context:
    """What a server makes of this principal now."""
    return Authenticator(owner.unrestricted, fresh_seconds=0)._context(who)


def everything_in(by: Context, project: str) -> dict[str, set[str]]:
    """The sessions that each list and search finds with a filter on this project."""
    for operation in ("artifacts", "tags"):
        ask(by, operation, project=project)
    for path in ("x.py", "src/", ""):
        ask(by, "files", path=path, project=project)
    return {
        "sessions": {line.id for line in ask(by, "sessions", project=project)},
        "search": {hits.session for hits in ask(by, "search", query="lighthouse", project=project).sessions},
        "all": {hits.session for hits in ask(by, "search", project=project).sessions},
        "recall": {known.session for known in ask(by, "recall", query="round", project=project).found},
        "newest": {known.session for known in ask(by, "recall", project=project).found},
        "tail": {event.session for event in ask(by, "tail", project=project)},
        "store": {listed.session.id for listed in by.store.sessions(project=project)},
    }


def test_a_renamed_project_is_found_by_both_names_and_shown_by_the_new_one(owner: Context) -> None:
    old = opened(owner, "shop")
    other = opened(owner, "bank")
    ask(owner, "project_rename", project="shop", name="store")
    new = opened(owner, "shop")
    for name in ("shop", "store"):
        assert all(found == {old, new} for found in everything_in(owner, name).values()), everything_in(owner, name)
    assert {line.project for line in ask(owner, "sessions")} == {"store", "bank"}
    assert {row.by["project"] for row in ask(owner, "usage", by=["project"]).rows} <= {"store", "bank"}
    [line] = [line for line in ask(owner, "project_list") if line.project == "store"]
    assert (line.sessions, line.formerly) == (2, ["shop"])
    assert all(found == {other} for found in everything_in(owner, "bank").values())


def test_a_project_can_be_renamed_again_and_back(owner: Context) -> None:
    session = opened(owner, "shop")
    for name in ("store", "market", "shop", "store"):
        ask(owner, "project_rename", project="market", name=name) if name == "shop" else ask(
            owner, "project_rename", project="shop", name=name
        )
        assert ask(owner, "show", session=session).session.project == name
    assert {line.id for line in ask(owner, "sessions", project="market")} == {session}
    assert [line.project for line in ask(owner, "project_list")] == ["store"]


def test_a_taken_name_is_refused_and_a_merge_is_suggested(owner: Context) -> None:
    opened(owner, "shop")
    opened(owner, "bank")
    with pytest.raises(Conflict, match="merge"):
        ask(owner, "project_rename", project="shop", name="bank")
    with pytest.raises(NotFound):
        ask(owner, "project_rename", project="nowhere", name="there")
    with pytest.raises(InvalidInput):
        ask(owner, "project_rename", project="shop", name=" ")


def test_two_merged_projects_are_one_everywhere(owner: Context) -> None:
    one, two = opened(owner, "shop"), opened(owner, "store")
    ask(owner, "project_merge", project="shop", into="store")
    new = opened(owner, "shop")
    for name in ("shop", "store"):
        assert all(found == {one, two, new} for found in everything_in(owner, name).values())
    assert [(line.project, line.sessions) for line in ask(owner, "project_list")] == [("store", 3)]
    ask(owner, "project_rename", project="shop", name="market")
    assert {line.project for line in ask(owner, "sessions")} == {"market"}
    with pytest.raises(InvalidInput):
        ask(owner, "project_merge", project="shop", into="store")


def test_a_dry_run_changes_nothing(owner: Context) -> None:
    opened(owner, "shop")
    opened(owner, "bank")
    before = ask(owner, "project_list")
    renamed = ask(owner, "project_rename", project="shop", name="store", dry_run=True)
    merged = ask(owner, "project_merge", project="shop", into="bank", dry_run=True)
    assert (renamed.project, renamed.sessions, renamed.is_done) == ("store", 1, False)
    assert (merged.project, merged.formerly, merged.sessions, merged.is_done) == ("bank", ["shop"], 2, False)
    assert ask(owner, "project_list") == before


def test_chains_checkpoints_and_grants_verify_after_projects_were_renamed_and_merged(owner: Context) -> None:
    sessions = [opened(owner, name) for name in ("shop", "bank", "shop")]
    fork = ask(owner, "fork", session=sessions[0]).id
    ask(owner, "access_grant", who="bob", role="viewer", project="shop")
    ask(owner, "key_create", principal="agent:ci", project="shop")
    ask(owner, "audit_checkpoint")
    ask(owner, "project_rename", project="shop", name="store")
    ask(owner, "project_merge", project="store", into="bank")
    ask(owner, "append", session=fork, drafts=[WORD])
    ask(owner, "audit_checkpoint")
    assert all(log.ok for log in ask(owner, "verify"))
    assert examine(owner.store, [], []).problems == []
    assert unexplained(owner.store) == ([], True)
    operations = [entry.operation for entry in ask(owner, "audit_log", project="bank").entries]
    assert {"project_rename", "project_merge", "access_grant"} <= set(operations)


def test_rights_follow_a_project(owner: Context) -> None:
    shop, bank = opened(owner, "shop"), opened(owner, "bank")
    ask(owner, "access_grant", who="bob", role="viewer", project="shop")
    ask(owner, "access_grant", who="carol", rights=["see", "read"], agent="fred", project="shop")
    ask(owner, "project_rename", project="shop", name="store")
    bob = somebody(owner, "person:bob")
    assert {line.id for line in ask(bob, "sessions")} == {shop}
    assert {line.id for line in ask(bob, "sessions", project="shop")} == {shop}
    with pytest.raises(NotFound):
        ask(bob, "sessions", project="bank")
    change = ask(owner, "project_merge", project="store", into="bank")
    assert "person:bob may see the sessions of bank, too" in change.notes
    bob = somebody(owner, "person:bob")
    for name in ("shop", "store", "bank"):
        assert {line.id for line in ask(bob, "sessions", project=name)} == {shop, bank}
        assert {event.session for event in ask(bob, "tail", project=name)} == {shop, bank}
    fred = opened(owner, "shop", agent="fred")
    assert {line.id for line in ask(somebody(owner, "person:carol"), "sessions")} == {fred}
    ask(owner, "access_grant", who="bob", rights=["see"], project="shop")
    grants = [grant for grant in ask(owner, "access_list", project="bank") if grant.who == "person:bob"]
    assert [(grant.rights, grant.project) for grant in grants] == [(["see"], "bank")]


def test_a_key_for_a_project_is_good_for_it_under_its_new_name(owner: Context) -> None:
    shop = opened(owner, "shop")
    ask(owner, "access_grant", who="agent:ci", role="viewer")
    key = ask(owner, "key_create", principal="agent:ci", project="shop").key
    other = opened(owner, "bank")
    ask(owner, "project_rename", project="shop", name="store")
    caller = Authenticator(owner.unrestricted, fresh_seconds=0).authenticate(key)
    assert {line.id for line in ask(caller, "sessions")} == {shop}
    with pytest.raises(ClewError):
        ask(caller, "show", session=other)


def test_who_may_not_administer_both_changes_nothing_and_learns_nothing(owner: Context) -> None:
    opened(owner, "shop")
    opened(owner, "secret")
    ask(owner, "access_grant", who="bob", role="admin", project="shop")
    bob = somebody(owner, "person:bob")
    refusals = set()
    for name in ("secret", "nowhere"):
        for operation, arguments in (
            ("project_merge", {"project": "shop", "into": name}),
            ("project_merge", {"project": name, "into": "shop"}),
            ("project_rename", {"project": "shop", "name": name}),
            ("project_rename", {"project": name, "name": "mine"}),
            ("project_move", {"folder": "/home/me/shop", "to": name}),
        ):
            with pytest.raises(Denied) as refused:
                call(bob, operation, arguments)
            refusals.add(
                (name, operation, str(arguments).replace(name, "NAME"), str(refused.value).replace(name, "NAME"))
            )
    assert {refusal[1:] for refusal in refusals if refusal[0] == "secret"} == {
        refusal[1:] for refusal in refusals if refusal[0] == "nowhere"
    }
    assert [line.project for line in ask(bob, "project_list")] == ["shop"]
    ask(owner, "project_rename", project="secret", name="hidden")
    with pytest.raises(NotFound) as unknown:
        ask(bob, "sessions", project="secret")
    assert "hidden" not in str(unknown.value)


def test_policies_and_settings_follow_and_the_stricter_setting_holds(owner: Context) -> None:
    opened(owner, "shop")
    opened(owner, "bank")
    ask(owner, "retention_set", project="shop", keep_days=90)
    ask(owner, "setting_set", name="secrets", value="mask", project="shop")
    with pytest.raises(Conflict, match="retention"):
        ask(owner, "project_merge", project="shop", into="bank")
    ask(owner, "setting_set", name="budget_day", value="$20", project="shop")
    ask(owner, "project_rename", project="shop", name="store")
    assert [budget.project for budget in ask(owner, "usage", project="store").budgets] == ["store"]
    ask(owner, "setting_set", name="budget_day", value="none", project="store")
    assert [(policy.project, policy.keep_days) for policy in ask(owner, "retention_list")] == [("store", 90)]
    masking = [one for one in ask(owner, "setting_list") if one.name == "secrets"]
    assert [(one.project, one.value) for one in masking] == [("store", "mask")]
    ask(owner, "retention_remove", project="shop")
    ask(owner, "setting_set", name="secrets", value="keep", project="bank")
    ask(owner, "project_merge", project="store", into="bank")
    masking = [one for one in ask(owner, "setting_list") if one.name == "secrets"]
    assert [(one.project, one.value) for one in masking] == [("bank", "mask")]
    secret = {"kind": "message_added", "role": "user", "text": "ghp_" + "a1B2c3D4" * 4 + "e5F6"}
    fresh = Context(store=owner.store, unrestricted=owner.store, principal=ADA, grants=owner.grants)
    session = ask(fresh, "open", project="shop").id
    ask(fresh, "append", session=session, drafts=[secret])
    assert "ghp_" not in str(ask(fresh, "events", session=session))


def test_retention_of_a_merged_project_prunes_the_sessions_of_both(owner: Context) -> None:
    ids = {opened(owner, "shop"), opened(owner, "bank")}
    ask(owner, "project_merge", project="shop", into="bank")
    ask(owner, "retention_set", project="shop", keep_days=0)
    assert {pruned.session for pruned in ask(owner, "retention_apply")} == ids


@pytest.mark.parametrize("shared", ["shop", "bank"])
def test_a_merge_shares_nothing_that_was_not_shared(owner: Context, shared: str) -> None:
    opened(owner, "shop")
    opened(owner, "bank")
    remotes.save(Path(owner.home), remotes.Setting(name="team", url="https://team.example", projects=[shared]))
    with pytest.raises(Conflict, match="shared with 'team'"):
        ask(owner, "project_merge", project="shop", into="bank")
    ask(owner, "project_rename", project=shared, name="renamed")
    assert remotes.named(Path(owner.home)).projects == ["renamed"]


def test_two_merges_at_once_make_no_ring(store_url: str) -> None:
    with open_store(store_url) as one, open_store(store_url) as other:
        contexts = [
            Context(store=store, unrestricted=store, principal=ADA, grants=(owner_of_everything(ADA),))
            for store in (one, other)
        ]
        opened(contexts[0], "shop")
        opened(contexts[0], "bank")
        pairs = iter([("shop", "bank"), ("bank", "shop")])

        def merge(context: Context) -> None:
            project, into = next(pairs)
            with contextlib.suppress(Conflict, InvalidInput):
                ask(context, "project_merge", project=project, into=into)

        at_once([lambda context=context: merge(context) for context in contexts])
        assert len({line.project for line in ask(contexts[0], "sessions")}) == 1


def test_two_captures_at_once_give_one_folder_one_project(store_url: str) -> None:
    with open_store(store_url) as one, open_store(store_url) as other:
        found: list[str] = []

        def claim_it(store: Store, folder: str) -> None:
            found.append(
                settle(store, CapturedFrom(places=(Place(machine="here", place=folder),), name="b", named="/a/b"))
            )

        at_once([lambda store=store: claim_it(store, "/home/me/x") for store in (one, other)])
        assert len(set(found)) == 1
        found.clear()
        at_once(
            [lambda store=store, place=place: claim_it(store, place) for store, place in ((one, "/y"), (other, "/z"))]
        )
        assert len(set(found)) == 2


# Folders --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def person(tmp_path: Path) -> Path:
    path = tmp_path / "person"
    path.mkdir()
    return path


def test_a_moved_folder_takes_its_project_along(owner: Context, person: Path, tmp_path: Path) -> None:
    plane, old, new = Plane(Local(owner)), tmp_path / "old", tmp_path / "new"
    for name in ("notes", "letters"):
        (old / name).mkdir(parents=True)
        assert project_in(plane, person, old / name) == name
    old.rename(new)
    before = session_in(person, new / "notes")
    assert projects(plane, person)[before] == "new-notes"
    ask(owner, "project_move", folder=str(old), to=str(new))
    assert projects(plane, person)[before] == "notes"
    assert [project_in(plane, person, new / name, "codex") for name in ("notes", "letters")] == ["notes", "letters"]
    assert {line.project for line in ask(owner, "project_list")} == {"notes", "letters"}


def test_a_folder_gets_the_project_that_a_person_names(owner: Context, person: Path, tmp_path: Path) -> None:
    plane = Plane(Local(owner))
    main = repository(tmp_path / "mono", remote="git@github.com:acme/mono.git")
    (main / "packages" / "lib").mkdir(parents=True)
    opened(owner, "lib")
    assert project_in(plane, person, main / "packages" / "lib") == "mono"
    ask(owner, "project_move", folder=str(main / "packages"), to="lib")
    assert project_in(plane, person, main / "packages" / "lib", "codex") == "lib"
    assert project_in(plane, person, main) == "mono"
    with pytest.raises(NotFound):
        ask(owner, "project_move", folder="/home/me/never", to="/home/me/seen")
    with pytest.raises(NotFound):
        ask(owner, "project_move", folder="/home/me/never", to="nowhere")


def test_new_sessions_of_both_folders_go_into_the_merged_project(owner: Context, person: Path) -> None:
    plane = Plane(Local(owner))
    folders = ["/home/me/a/api", "/home/me/b/api"]
    assert [project_in(plane, person, folder) for folder in folders] == ["api", "b-api"]
    ask(owner, "project_merge", project="b-api", into="api")
    assert [project_in(plane, person, folder, "codex") for folder in folders] == ["api", "api"]
    assert project_in(plane, person, "/home/me/c/api") == "c-api"


def test_an_erased_project_keeps_no_path(owner: Context, person: Path) -> None:
    plane = Plane(Local(owner))
    assert project_in(plane, person, "/home/me/hush-hush") == "hush-hush"
    [line] = ask(owner, "sessions")
    ask(owner, "erase", session=line.id)
    assert [line.folders for line in ask(owner, "project_list")] in ([], [[]])
    session_in(person, "/home/me/hush-hush")
    assert [report.status for report in capture(plane, person)].count("new") == 1
    assert {line.project for line in ask(owner, "sessions") if line.project != ""} == {"hush-hush"}


def test_whom_one_session_was_shared_with_sees_the_new_name_of_its_project(owner: Context) -> None:
    shop = opened(owner, "shop")
    opened(owner, "shop")
    ask(owner, "share", session=shop, who="bob")
    ask(owner, "project_rename", project="shop", name="store")
    bob = somebody(owner, "person:bob")
    assert [(line.id, line.project) for line in ask(bob, "sessions")] == [(shop, "store")]
    assert [(line.project, line.sessions, line.formerly) for line in ask(bob, "project_list")] == [("store", 1, [])]
    assert {line.id for line in ask(bob, "sessions", project="store")} == {shop}
