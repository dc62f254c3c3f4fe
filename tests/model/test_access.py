"""Access: nobody may anything unless a grant says so, a grant covers what it names, and every ruling says why."""

from hypothesis import given
from hypothesis import strategies as st

from clew.model.access import Caller, Grant, Right, Ruling, Target, owner_of_everything


def rule(principal: str, right: Right, target: Target, grants: list[Grant]) -> Ruling:
    return Caller(principal, grants).rule(right, target)


PEOPLE = st.sampled_from(["person:ada", "person:bob", ""])
NAMES = st.sampled_from(["", "a", "b"])
RIGHTS = st.sampled_from(list(Right))
TARGETS = st.builds(Target, project=NAMES, agent=NAMES, session=NAMES)
GRANTS = st.builds(Grant, principal=PEOPLE, rights=st.frozensets(RIGHTS), project=NAMES, agent=NAMES, session=NAMES)


@given(principal=PEOPLE, right=RIGHTS, target=TARGETS)
def test_without_a_grant_nobody_may_anything(principal: str, right: Right, target: Target) -> None:
    assert not rule(principal, right, target, []).allowed


@given(principal=PEOPLE, right=RIGHTS, target=TARGETS, grants=st.lists(GRANTS, max_size=4))
def test_a_right_needs_one_grant_that_fits_in_every_respect(
    principal: str, right: Right, target: Target, grants: list[Grant]
) -> None:
    fitting = [
        grant
        for grant in grants
        if grant.principal == principal
        and right in grant.rights
        and (
            grant.session == target.session
            if grant.session
            else grant.project in ("", target.project) and grant.agent in ("", target.agent)
        )
    ]
    assert rule(principal, right, target, grants).allowed == bool(fitting)


@given(principal=PEOPLE, right=RIGHTS, target=TARGETS, grants=st.lists(GRANTS, max_size=4), more=GRANTS)
def test_another_grant_never_takes_a_right_away(
    principal: str, right: Right, target: Target, grants: list[Grant], more: Grant
) -> None:
    if rule(principal, right, target, grants).allowed:
        assert rule(principal, right, target, [*grants, more]).allowed
        assert rule(principal, right, target, [more, *grants]).allowed


@given(right=RIGHTS)
def test_a_narrowed_grant_does_not_reach_the_whole(right: Right) -> None:
    for narrowed in ({"project": "a"}, {"agent": "a"}, {"session": "a"}):
        grant = Grant(principal="person:ada", rights=frozenset(Right), **narrowed)
        assert not rule("person:ada", right, Target(), [grant]).allowed


@given(right=RIGHTS, target=TARGETS)
def test_an_owner_may_everything_and_nobody_else_by_that(right: Right, target: Target) -> None:
    grants = [owner_of_everything("person:ada")]
    assert rule("person:ada", right, target, grants).allowed
    assert not rule("person:bob", right, target, grants).allowed


def test_a_ruling_says_why() -> None:
    grant = Grant(principal="person:ada", rights=frozenset({Right.READ}), project="demo", agent="fred")
    target = Target(project="demo", agent="fred", session="s1")
    assert (
        rule("person:ada", Right.READ, target, [grant]).because == "granted to person:ada on project demo, agent fred"
    )
    refusal = rule("person:ada", Right.FORK, target, [grant]).because
    assert refusal == "no grant gives person:ada the right to fork on s1"
    assert "the store" in rule("person:bob", Right.READ, Target(), []).because
