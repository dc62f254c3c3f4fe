"""The pages of a team show each principal what they may see, and say what they may not."""

import random

import pytest

from clew.service import call
from server.running import OWNER, Running, viewer
from server.test_actions import PAGE, browser_of, titled
from support.fake_secrets import KINDS

OWNERS_ALONE = ("/audit", "/settings?part=doctor", "/people?who=zoe", "/keys?who=zoe")


@pytest.fixture
def team(running: Running) -> Running:
    """Ann may look into p; nobody but the owner has to do with q, and with Zoe, who has a key and a grant there."""
    for project, title in (("p", "shown to ann"), ("q", "hidden from ann")):
        id = titled(running, title, project=project)
        call(running.owner, "append", {"session": id, "drafts": [
            {"kind": "call_made", "call": "1", "tool": "Edit", "input": {"file_path": f"src/{project}_file.py",
             "old_string": "a", "new_string": "b"}}]})  # fmt: skip
    running.key("person:ann", viewer("person:ann", project="p"))
    running.key("person:zoe", viewer("person:zoe", project="q"), label="zoes-label")
    call(running.owner, "agent_register", {"name": "hidden-agent", "project": "q"})
    call(running.owner, "retention_set", {"project": "q", "keep_days": 77})
    return running


def test_nobody_sees_what_is_out_of_reach(team: Running) -> None:
    with browser_of(team, "person:ann") as ann:
        for path in (
            "/files", "/files?file=src/q_file.py&of=q", "/timeline?range=hour", "/agents", "/people", "/access",
            "/access?who=ann&what=p", "/keys", "/settings", "/settings?part=retention", "/settings?part=redaction",
            "/settings?part=remotes", "/settings?part=jobs", *OWNERS_ALONE,
        ):  # fmt: skip
            answer = ann.get(path, headers=PAGE)
            assert answer.status_code in (200, 403, 404), path
            # What the address itself says comes back.
            for hidden in (
                "hidden from ann",
                "hidden-agent",
                "zoes-label",
                "77 days",
                "q_file.py" * ("q_file" not in path),
            ):
                assert not hidden or hidden not in answer.text, (path, hidden)
        assert "p_file.py" in ann.get("/files", headers=PAGE).text
        assert "shown to ann" in ann.get("/timeline?range=hour", headers=PAGE).text
        assert "granted to person:ann on project p" in ann.get("/access?who=ann&what=p", headers=PAGE).text


def test_a_page_says_what_it_may_not_show_and_offers_nothing_that_is_refused(team: Running) -> None:
    with browser_of(team, "person:ann") as ann:
        for path in OWNERS_ALONE:
            assert "refused" in (text := ann.get(path, headers=PAGE).text) or "owner" in text, path
        assert ann.get("/audit", headers=PAGE).status_code == 403
        for path in ("/people", "/access", "/agents", "/settings", "/settings?part=retention", "/settings?part=jobs"):
            assert "data-asks" not in ann.get(path, headers=PAGE).text, path
        assert "Make a key" in ann.get("/keys", headers=PAGE).text
        refused = ann.post("/access/grant", data={"who": "ann", "role": "admin", "project": "q"}, headers=PAGE)
        assert (refused.status_code, "access_grant was refused" in refused.text) == (403, True)


def test_secrets_are_found_by_place_and_never_shown(team: Running) -> None:
    token = KINDS["GITHUB_TOKEN"](random.Random(1))
    id = titled(team, "it has one", project="p")
    call(team.owner, "append", {"session": id, "drafts": [
        {"kind": "message_added", "role": "user", "text": f"use {token}"}]})  # fmt: skip
    with browser_of(team, "person:ann") as ann:
        text = ann.get("/settings?part=redaction&project=p", headers=PAGE).text
        assert f"/sessions/{id}?event=2#e2" in text
        assert token not in text
        hidden = ann.get("/settings?part=redaction&project=q", headers=PAGE).text
        assert "no project &#39;q&#39; that you may look into" in hidden


def test_an_owner_sees_and_does_all_of_it(team: Running) -> None:
    with browser_of(team) as owner:
        for path, word in (
            ("/people", "who=person%3Azoe"), ("/people?who=zoe", "zoes-label"), ("/keys?who=zoe", "zoes-label"),
            ("/access", "viewer"), ("/audit", "agent register"), ("/agents", "hidden-agent"),
            ("/settings?part=retention", "77 days"), ("/settings?part=doctor", "views"),
        ):  # fmt: skip
            assert word in owner.get(path, headers=PAGE).text, path
        assert "yours alone" not in owner.get("/people", headers=PAGE).text
        assert owner.post("/people/disable", data={"principal": "zoe"}).status_code == 303
        assert "shut out" in owner.get("/people?who=zoe", headers=PAGE).text
        assert owner.post("/settings/retention/remove", data={"project": "q"}).status_code == 303
        assert call(team.owner, "retention_list", {}) == []
    disabled = [one.name for one in call(team.owner, "principal_list", {}) if one.disabled]
    assert (disabled, OWNER in disabled) == (["person:zoe"], False)
