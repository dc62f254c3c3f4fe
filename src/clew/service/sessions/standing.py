"""Where a session stands and what its scratch holds, without reading the session: a row, and the view of knowledge."""

from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.events import ScratchSet
from clew.model.knowledge import Tier
from clew.model.session import Session
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.knowledge.known import known_of
from clew.service.sessions.info import SessionInfo, info


@operation(right=Right.READ, route="GET /sessions/{session}/head", version=lambda standing: standing.head)
def head(context: Context, session: Session) -> SessionInfo:
    """Show where a session stands: its head, its state, its lease and what it has spent."""
    return info(context, session, context.store.head(session))


@operation(right=Right.READ, route="GET /sessions/{session}/scratch", reads_views=True)
def scratch(
    context: Context,
    session: Session,
    *,
    name: Annotated[str, msgspec.Meta(description="Only the value of this name.")] = "",
) -> dict[str, msgspec.Raw]:
    """Read the scratch of a session: the JSON values that its agent keeps by name."""
    return {
        known.body.name: known.body.value
        for known in known_of(context, session)
        if known.tier is Tier.SCRATCH and isinstance(known.body, ScratchSet) and name in ("", known.body.name)
    }
