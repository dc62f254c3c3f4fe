"""The operations on retention policies, pruning, and erasure."""

from typing import Annotated

import msgspec

from clew.capture_cache import discard_report
from clew.model.access import Right, Target
from clew.model.errors import HasForks, NotFound
from clew.model.retention import Policy
from clew.model.session import Session
from clew.service.find.filters import project_keys
from clew.service.kernel.call import permit, target_of
from clew.service.kernel.context import Context
from clew.service.kernel.effects import permit_hold
from clew.service.kernel.registry import Group, operation
from clew.store.log.erase import Erased, descendants
from clew.store.log.erase import erase as erase_session
from clew.store.log.retention import Pruned, apply_policies, list_policies, remove_policy, set_policy
from clew.store.objects.collection import collect

Days = Annotated[int, msgspec.Meta(ge=0, le=36_500, description="Days after a conversation was last said.")]
Agent = Annotated[str, msgspec.Meta(description="Only this agent of the project.")]

RETENTION = Group("retention", "How long conversations are kept.")


@operation(right=Right.ADMINISTER, route="PUT /retention", audited=True, group=RETENTION)
def retention_set(
    context: Context,
    project: str,
    *,
    agent: Agent = "",
    keep_days: Days | None = None,
    hold: Annotated[bool, msgspec.Meta(description="Legal hold: nothing is pruned or erased.")] = False,
) -> Policy:
    """Set how long a project, or one agent of it, keeps its conversations; without days they are kept for ever."""
    project_keys(context, project, Right.ADMINISTER)  # A policy of a misspelt project would keep nothing.
    policy = Policy(project=project, agent=agent, keep_days=keep_days, hold=hold)
    if hold != _is_held(context, project, agent):
        permit_hold(context, project)
    set_policy(context.store, policy)
    return policy


@operation(right=Right.ADMINISTER, route="DELETE /retention", audited=True, group=RETENTION)
def retention_remove(context: Context, project: str, *, agent: Agent = "") -> None:
    """Remove a retention policy."""
    if _is_held(context, project, agent):
        permit_hold(context, project)
    if not remove_policy(context.store, project, agent):
        raise NotFound(
            f"no retention policy for {project}{f'/{agent}' if agent else ''}; `clew retention list` shows all"
        )


def _is_held(context: Context, project: str, agent: str) -> bool:
    return any(known.hold for known in list_policies(context.store) if (known.project, known.agent) == (project, agent))


@operation(right=Right.SEE, route="GET /retention", filters_by_reach=True, group=RETENTION)
def retention_list(context: Context) -> list[Policy]:
    """List the retention policies."""
    policies = list_policies(context.store)
    return [policy for policy in policies if context.caller.rule(Right.SEE, Target(project=policy.project)).allowed]


@operation(
    right=Right.ADMINISTER, route="POST /retention/apply", audited=True, group=RETENTION,
    warning="This removes these bodies for good",
)  # fmt: skip
def retention_apply(
    context: Context,
    *,
    dry_run: Annotated[bool, msgspec.Meta(description="Only say what would be removed.")] = False,
) -> list[Pruned]:
    """Prune the conversations whose time is over; knowledge stays, and so does what a fork still reads."""
    pruned = apply_policies(context.store, actor=context.principal, dry_run=dry_run)
    if dry_run:
        return pruned
    collect(context.store)
    if any(session.events for session in pruned):
        context.views.purge()
    return pruned


@operation(right=Right.ADMINISTER, route="DELETE /sessions/{session}", audited=True)
def erase(
    context: Context,
    session: Session,
    *,
    with_forks: bool = False,
    reason: str = "",
    overwrite: Annotated[
        bool, msgspec.Meta(description="Also overwrite free space; of many erasures only the last one has to.")
    ] = True,
) -> list[Erased]:
    """Erase a session's content for good; the record that it existed and was erased stays."""
    # The unrestricted log finds forks that the caller may not see; their ids stay out of the error.
    forks = descendants(context.unrestricted, session)[1:]
    visible = [fork.id for fork in forks if context.caller.rule(Right.SEE, target_of(fork)).allowed]
    if forks and not with_forks:
        raise HasForks(
            f"{len(forks)} other session(s) read events of {session.id} ({', '.join(visible[:5]) or 'none of yours'}); "
            "erase the forks first, or erase them together with this session",
            session=session.id,
            forks=visible,
        )
    for fork in forks:
        permit(context, Right.ADMINISTER, fork)
    # VACUUM blocks writers, so on a server only owners of the whole store may trigger it.
    may_overwrite = not context.answers_leave_machine or context.caller.rule(Right.ADMINISTER, Target()).allowed
    overwrite = overwrite and may_overwrite
    erased = erase_session(
        context.unrestricted,
        session,
        actor=context.principal,
        with_forks=with_forks,
        reason=reason,
        overwrite=overwrite,
    )
    discard_report(context.home)
    if not overwrite:
        context.views.catch_up()
        return erased
    views_beyond = context.views.purge()
    return [
        msgspec.structs.replace(report, beyond_reach=list(dict.fromkeys([*report.beyond_reach, *views_beyond])))
        for report in erased
    ]
