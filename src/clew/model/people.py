"""The kinds of who works on a session: leases, handoffs and approvals (events.py)."""

from clew.model.opaque import Body


class LeaseTaken(Body, frozen=True, kw_only=True):
    kind = "lease_taken"
    reserved = True
    step = "people"
    durable = True
    holder: str
    epoch: int


class LeaseReleased(Body, frozen=True, kw_only=True):
    kind = "lease_released"
    reserved = True
    step = "people"
    durable = True
    holder: str
    epoch: int


class LeaseLost(Body, frozen=True, kw_only=True):
    """A holder's time ran out and another took over."""

    kind = "lease_lost"
    reserved = True
    step = "people"
    durable = True
    holder: str
    epoch: int


class HandoffOffered(Body, frozen=True, kw_only=True):
    kind = "handoff_offered"
    step = "people"
    durable = True
    handoff: str
    to: str
    brief: str = ""


class HandoffAccepted(Body, frozen=True, kw_only=True):
    kind = "handoff_accepted"
    step = "people"
    durable = True
    handoff: str


class HandoffDeclined(Body, frozen=True, kw_only=True):
    kind = "handoff_declined"
    step = "people"
    durable = True
    handoff: str
    reason: str = ""


class HandoffReturned(Body, frozen=True, kw_only=True):
    kind = "handoff_returned"
    step = "people"
    durable = True
    handoff: str
    brief: str = ""


class ApprovalAsked(Body, frozen=True, kw_only=True):
    kind = "approval_asked"
    step = "people"
    durable = True
    approval: str
    question: str
    call: str = ""


class ApprovalGiven(Body, frozen=True, kw_only=True):
    kind = "approval_given"
    step = "people"
    durable = True
    approval: str
    allowed: bool
    note: str = ""
