"""What a change of a rule needs, in an operation, an append, or an event of another store.

One function decides, `may`. It looks at the effect, at the session and at its ancestors. A fork shows what its
ancestors said: opening or sharing it opens or shares them. `permit_objects` rules on the objects an event names.
"""

import enum
from collections.abc import Callable, Iterable

from clew.model.access import Right, Ruling, Target
from clew.model.errors import Denied, NotFound
from clew.model.events import Body, Budget, BudgetSet, Opaque, PrivacySet
from clew.model.object_names import kinds_naming_objects, objects_of
from clew.model.session import Session
from clew.service.kernel.call import target_of
from clew.service.kernel.context import Context


class Effect(enum.StrEnum):
    """A change of a rule; the text says it in a refusal."""

    OPEN = "open it to its project"
    CLOSE = "make it private"
    SHARE = "share it"
    BUDGET = "change its budget"


def effect_of(body: Body | Opaque) -> Effect | None:
    """The rule that an event changes; None for an event that says only what happened."""
    match body:
        case PrivacySet(private=private):
            return Effect.CLOSE if private else Effect.OPEN
        case BudgetSet():
            return Effect.BUDGET
        case _:
            return None


def may(context: Context, effect: Effect, session: Session) -> Ruling:
    """Whether the caller may do this to a session and to the ancestors whose history it shows."""
    if effect == Effect.BUDGET:
        return _may_budget(context, session)
    ruling = _rule(context, Right.ADMINISTER, session)
    if effect == Effect.CLOSE or not ruling.allowed:
        return ruling
    private = (ancestor for ancestor in _ancestors(context, session) if ancestor.private)
    return _worst(ruling, (_rule(context, Right.ADMINISTER, ancestor) for ancestor in private))


def permit_effect(context: Context, effect: Effect, session: Session) -> Ruling:
    """Refuse a caller who may not do this."""
    ruling = may(context, effect, session)
    if not ruling.allowed:
        right = Right.BUDGET if effect == Effect.BUDGET else Right.ADMINISTER
        raise Denied(
            f"you may not {effect}, because {ruling.because}; a fork counts like the sessions it was forked from",
            right=str(right),
        )
    return ruling


def effects_filter(context: Context, session: Session) -> Callable[[Body | Opaque], Ruling]:
    """Rules on one event after the other of those that arrive together for a session."""
    has_budget = False

    def rule(body: Body | Opaque) -> Ruling:
        nonlocal has_budget
        effect = effect_of(body)
        if effect is None:
            return Ruling(True, "it changes no rule")
        if effect == Effect.BUDGET and has_budget:
            # An owner sets the first budget of a session alone, and one came just before.
            return _rule(context, Right.BUDGET, session)
        has_budget = has_budget or effect == Effect.BUDGET
        return may(context, effect, session)

    return rule


def permit_objects(context: Context, session: Session, bodies: Iterable[Body | Opaque]) -> None:
    """Refuse to name objects without their bytes, except those that the session itself shows the caller already.

    The answer is the same whether the store has such an object or not. A caller on its machine has its files.
    """
    wanted = {name for body in bodies for name in objects_of(body)}
    if not wanted or not context.answers_leave_machine:
        return
    if context.caller.rule(Right.READ, target_of(session)).allowed:
        events = context.store.read(session, kinds=kinds_naming_objects())
        wanted -= {name for event in events for name in objects_of(event.body)}
    if wanted:
        name = min(wanted)
        raise NotFound(f"no blob {name[:80]} that this session names; send its bytes with `sync_append`", blob=name)


def _may_budget(context: Context, session: Session) -> Ruling:
    """A budget is a right of its own; who administers a session sets its first, as when they opened it."""
    lineage = [session, *_ancestors(context, session)]
    if all(context.unrestricted.head(part).budget == Budget() for part in lineage):
        ruling = _rule(context, Right.ADMINISTER, session)
        return ruling if ruling.allowed else _rule(context, Right.BUDGET, session)
    return _worst(
        _rule(context, Right.BUDGET, session), (_rule(context, Right.BUDGET, ancestor) for ancestor in lineage[1:])
    )


def _ancestors(context: Context, session: Session) -> list[Session]:
    # The unrestricted log: an ancestor that the caller cannot see is ruled on like any other.
    parts = context.unrestricted.lineage(session)
    return [context.unrestricted.session(part.id) for part in parts if part.id != session.id]


def _rule(context: Context, right: Right, session: Session) -> Ruling:
    ruling = context.caller.rule(right, target_of(session))
    if ruling.allowed or context.caller.rule(Right.SEE, target_of(session)).allowed:
        return ruling
    # The id of an ancestor that the caller cannot see stays out of the refusal.
    return Ruling(False, f"no grant gives {context.principal} the right to {right} on a session it was forked from")


def _worst(ruling: Ruling, others: Iterable[Ruling]) -> Ruling:
    return next((other for other in [ruling, *others] if not other.allowed), ruling)


def permit_hold(context: Context, project: str) -> None:
    """Refuse to set or lift a legal hold without the right to."""
    ruling = context.caller.rule(Right.HOLD, Target(project=project))
    if not ruling.allowed:
        raise Denied(f"a legal hold is a right of its own, and {ruling.because}", right=str(Right.HOLD))
