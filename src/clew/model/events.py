"""What can happen in a session. One class per kind, named in the past tense; a body never changes once accepted.

The kind string is what is stored; the class name is not. Our own kinds contain no dot. A kind with a dot belongs to
somebody else and is carried as `Opaque`, verbatim. `step` says what a body does to the lifecycle (session.py),
`durable` whether it survives the pruning of the conversation, `reserved` that an operation of its own writes it.
"""

import msgspec
from msgspec import Raw

from clew.model.labels import NoteAdded as NoteAdded
from clew.model.labels import NoteRemoved as NoteRemoved
from clew.model.labels import SessionStarred as SessionStarred
from clew.model.labels import SessionTagged as SessionTagged
from clew.model.labels import SessionUnstarred as SessionUnstarred
from clew.model.labels import SessionUntagged as SessionUntagged
from clew.model.labels import TitleGiven as TitleGiven
from clew.model.opaque import Body as Body
from clew.model.opaque import Opaque as Opaque
from clew.model.opaque import Removed as Removed
from clew.model.parts import Budget as Budget
from clew.model.parts import FileChange as FileChange
from clew.model.parts import FilePart as FilePart
from clew.model.parts import ImagePart as ImagePart
from clew.model.parts import Part as Part
from clew.model.parts import TextPart as TextPart
from clew.model.parts import ThinkingPart as ThinkingPart
from clew.model.parts import Touch as Touch
from clew.model.parts import Usage as Usage
from clew.model.parts import Workspace as Workspace
from clew.model.work import ArtifactSaved as ArtifactSaved
from clew.model.work import CommitsMade as CommitsMade
from clew.model.work import WorkspaceRestored as WorkspaceRestored
from clew.model.work import WorkspaceSnapshotted as WorkspaceSnapshotted

# Lifecycle ------------------------------------------------------------------------------------------------------------


class SessionOpened(Body, frozen=True, kw_only=True):
    kind = "session_opened"
    reserved = True
    step = "opened"
    durable = True
    agent: str = ""
    project: str = ""
    title: str = ""
    metadata: Raw = Raw(b"{}")
    budget: Budget | None = None
    private: bool = False


class SessionForked(Body, frozen=True, kw_only=True):
    """The first event of a child, which reads `parent` up to and including `upto` and its spending of a budget."""

    kind = "session_forked"
    reserved = True
    step = "opened"
    durable = True
    parent: str
    upto: int
    title: str = ""
    private: bool = False
    spent_tokens: int = 0
    spent_cost_micros: int = 0


class SessionPaused(Body, frozen=True, kw_only=True):
    kind = "session_paused"
    reserved = True
    step = "paused"
    durable = True
    reason: str = ""


class SessionResumed(Body, frozen=True, kw_only=True):
    kind = "session_resumed"
    reserved = True
    step = "resumed"
    durable = True
    reason: str = ""
    runtime: str = ""


class SessionClosed(Body, frozen=True, kw_only=True):
    kind = "session_closed"
    reserved = True
    step = "closed"
    durable = True
    outcome: str = "completed"
    summary: str = ""


class SessionArchived(Body, frozen=True, kw_only=True):
    kind = "session_archived"
    reserved = True
    step = "archived"
    durable = True
    reason: str = ""


class SessionTitled(Body, frozen=True, kw_only=True):
    """What the session is about, as its runtime calls it from here on; `title_given` is a person's (labels.py)."""

    kind = "session_titled"
    step = "people"
    durable = True
    title: str


class PrivacySet(Body, frozen=True, kw_only=True):
    """From here on the session is private, or open to all who may see its project."""

    kind = "privacy_set"
    reserved = True
    step = "people"
    durable = True
    private: bool


class RuntimeAttached(Body, frozen=True, kw_only=True):
    """From here on this program drives the session: its version, its own id for it, and where it works."""

    kind = "runtime_attached"
    step = "people"
    durable = True
    runtime: str
    native: str = ""
    runtime_version: str = ""
    cwd: str = ""
    branch: str = ""
    machine: str = ""


# Turns ----------------------------------------------------------------------------------------------------------------


class TurnStarted(Body, frozen=True, kw_only=True):
    kind = "turn_started"
    turn: str = ""
    model: str = ""


class MessageAdded(Body, frozen=True, kw_only=True):
    """A message of a user, an assistant or the system: plain `text`, or `parts` when it is more than text.

    `message` is the provider's id of the answer this belongs to, `side` the subagent that said it when it was not the
    session's own agent, `usage` what the answer cost, counted once per answer.
    """

    kind = "message_added"
    role: str
    text: str = ""
    parts: tuple[Part, ...] = ()
    message: str = ""
    model: str = ""
    side: str = ""
    usage: Usage | None = None

    @property
    def content(self) -> tuple[Part, ...]:
        """The parts, whichever way the message was written down."""
        return (TextPart(text=self.text), *self.parts) if self.text else self.parts


class CallMade(Body, frozen=True, kw_only=True):
    """A tool call. `call` pairs it with its return; `input` is the JSON the agent wrote, verbatim."""

    kind = "call_made"
    call: str
    tool: str
    input: Raw = Raw(b"{}")
    touched: tuple[Touch, ...] = ()
    message: str = ""
    model: str = ""
    side: str = ""
    usage: Usage | None = None


class CallReturned(Body, frozen=True, kw_only=True):
    """What a call gave back: any JSON value, verbatim, or `parts`; `touched` is what the call itself does not say."""

    kind = "call_returned"
    call: str
    output: Raw = Raw(b"null")
    parts: tuple[Part, ...] = ()
    touched: tuple[Touch, ...] = ()
    failed: bool = False
    side: str = ""


class TurnEnded(Body, frozen=True, kw_only=True):
    kind = "turn_ended"
    turn: str = ""
    usage: Usage | None = None
    stop_reason: str = ""
    model: str = ""


class UsageCounted(Body, frozen=True, kw_only=True):
    """What an answer cost, where a runtime reports it apart from the answer."""

    kind = "usage_counted"
    usage: Usage
    model: str = ""
    message: str = ""


class Rewound(Body, frozen=True, kw_only=True):
    """The conversation goes on from the event with the source `to`; empty is from before the first."""

    kind = "rewound"
    to: str = ""


# Knowledge: survives compaction and pruning ---------------------------------------------------------------------------


class FactLearned(Body, frozen=True, kw_only=True):
    kind = "fact_learned"
    step = "knowledge"
    durable = True
    fact: str
    text: str
    evidence: tuple[int, ...] = ()
    scope: str = "session"


class FactRetired(Body, frozen=True, kw_only=True):
    kind = "fact_retired"
    step = "knowledge"
    durable = True
    fact: str
    reason: str = ""


class DecisionMade(Body, frozen=True, kw_only=True):
    kind = "decision_made"
    step = "knowledge"
    durable = True
    decision: str
    choice: str
    why: str = ""
    rejected: tuple[str, ...] = ()


class DecisionReversed(Body, frozen=True, kw_only=True):
    kind = "decision_reversed"
    step = "knowledge"
    durable = True
    decision: str
    reason: str = ""


class ProgressNoted(Body, frozen=True, kw_only=True):
    kind = "progress_noted"
    step = "knowledge"
    durable = True
    done: str = ""
    next: str = ""
    open: tuple[str, ...] = ()


class Compacted(Body, frozen=True, kw_only=True):
    """In what an llm sees, `summary` replaces the conversation from seq `first` to `last`.

    With `last` 0 it replaces everything before this event, except what came with or after the source `keep`.
    """

    kind = "compacted"
    summary: str
    first: int = 0
    last: int = 0
    keep: str = ""


# Scratch: named JSON values that pause and resume restore exactly -----------------------------------------------------


class ScratchSet(Body, frozen=True, kw_only=True):
    kind = "scratch_set"
    step = "knowledge"
    durable = True
    name: str
    value: Raw


class ScratchCleared(Body, frozen=True, kw_only=True):
    kind = "scratch_cleared"
    step = "knowledge"
    durable = True
    name: str


# People ---------------------------------------------------------------------------------------------------------------


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


# Budget ---------------------------------------------------------------------------------------------------------------


class BudgetSet(Body, frozen=True, kw_only=True):
    kind = "budget_set"
    reserved = True
    step = "people"
    durable = True
    budget: Budget


class BudgetWasExceeded(Body, frozen=True, kw_only=True):
    kind = "budget_exceeded"
    reserved = True
    step = "people"
    durable = True
    budget: Budget
    spent_tokens: int
    spent_cost_micros: int


# Keeping and forgetting -----------------------------------------------------------------------------------------------


class BodiesPruned(Body, frozen=True, kw_only=True):
    """Bodies removed by a retention policy, as ranges of seqs. The chain still verifies without them."""

    kind = "bodies_pruned"
    reserved = True
    step = "keeping"
    durable = True
    ranges: tuple[tuple[int, int], ...]
    policy: str = ""


class SessionErased(Body, frozen=True, kw_only=True):
    """Everything before this event was erased on request: bodies, sources, actors, title and metadata."""

    kind = "session_erased"
    reserved = True
    step = "erased"
    durable = True
    events: int
    reason: str = ""


# The control log of a project -----------------------------------------------------------------------------------------


class OperationCalled(Body, frozen=True, kw_only=True):
    """A principal called an operation; `rows` states what was made, and the entry stands for `count` refusals."""

    kind = "operation_called"
    reserved = True
    durable = True
    operation: str
    target: str = ""
    allowed: bool = True
    because: str = ""
    arguments: Raw = Raw(b"{}")
    credential: str = ""
    made: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    count: int = 1


AnyBody = Body | Opaque | Removed


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened, not yet accepted. The same `source` twice in a session is stored once."""

    body: Body | Opaque
    source: str | None = None
    said_at: int | None = None


class Event(msgspec.Struct, frozen=True, gc=False):
    """Something that happened, accepted: it never changes."""

    session: str
    seq: int
    position: int
    at: int
    said_at: int | None
    actor: str
    source: str | None
    digest: bytes
    body: AnyBody

    @property
    def kind(self) -> str:
        return self.body.kind


KINDS: dict[str, type[Body]] = {body.kind: body for body in Body.__subclasses__()}
TITLED = (SessionOpened, SessionForked, SessionTitled, TitleGiven)  # They give a session its title.
