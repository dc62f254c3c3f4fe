"""The Python API: a client carries out operations, and on top of it sessions are objects.

    plane = clew.connect()
    with plane.session(agent="reviewer", title="Fix the lock error") as s:
        s.user("why does it lock?")
        with s.call("shell", {"command": "pytest -x"}) as call:
            call.output = run_tests()
        s.decide("use WAL", why="readers never block")

Leaving the block closes the session; an exception in it pauses the session with the reason, so that it can be resumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, Self

import msgspec

from clew.lease_holder import has_ended, new_holder
from clew.model import events as e
from clew.model import knowledge
from clew.model.errors import WrongState
from clew.model.ids import new_id

if TYPE_CHECKING:
    from clew.model.knowledge import Knowledge
    from clew.model.transcript import Turn
    from clew.model.working_set import Touched
    from clew.service import Context
    from clew.service.capture.changed_files import FoundFiles
    from clew.service.capture.report import Captured
    from clew.service.find.files import FileTouch
    from clew.service.find.search import SearchPage
    from clew.service.find.usage import UsageReport
    from clew.service.find.usage_blocks import UsageBlocks
    from clew.service.handover.materialised import Materialised
    from clew.service.knowledge.recall import Recall
    from clew.service.knowledge.remember import Decided, Remembered
    from clew.service.replication.push import Pushed
    from clew.service.sessions.forks import Difference
    from clew.service.sessions.info import SessionInfo
    from clew.service.sessions.line import SessionLine
    from clew.service.sessions.objects import ObjectInfo, OpenedObject
    from clew.service.sessions.show import SessionDetail
    from clew.service.sessions.transcript import Transcript
    from clew.service.workspaces.opening import OpenedTar
    from clew.store.log.leases import Lease
    from clew.store.log.plan import Appended
    from clew.store.log.problems import Verified
    from clew.store.objects.objects import Source


class Client(Protocol):
    """Who carries out operations: this process on a log of its own (`Local`), or a server (`Remote`)."""

    @property
    def principal(self) -> str:
        """On whose behalf the operations are carried out."""

    @property
    def context(self) -> Context:
        """The context on this machine's own log; a server's log has none here, and asking for it is refused."""

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Carry out an operation; returns its result or raises its error."""

    def wait(self, *, after: int, timeout: float) -> bool:
        """Whether the log has an event after this position, waiting until the time is over."""

    def last_position(self) -> int:
        """The position of the newest event."""

    def follow(self, *, after: int, session: str = "", project: str = "") -> Iterator[e.Event]:
        """The events of a session (after a seq), a project or everything (after a position), as they come, for ever."""

    def put_object(
        self, session: str, name: str, source: Source, *, media_type: str = "", progress: bool = False,
        lease: int | None = None,
    ) -> ObjectInfo:  # fmt: skip
        """Store a stream and name it in a session."""

    def open_object(self, session: str, object: str) -> OpenedObject:
        """An object of a session, to be read piece by piece."""

    def open_file(self, session: str, path: str, *, at: int | None = None) -> OpenedObject:
        """A file of a session as it was at an event, to be read piece by piece."""

    def open_tar(self, session: str, path: str = "", *, at: int | None = None) -> OpenedTar:
        """The files of a session as they were at an event, as a tar archive to be read piece by piece."""

    def close(self) -> None: ...


class Plane:
    """All the sessions of one store."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def session(
        self,
        title: str = "",
        *,
        agent: str = "",
        project: str = "default",
        metadata: dict[str, Any] | None = None,
        budget_tokens: int | None = None,
        budget_usd: float | None = None,
    ) -> OpenSession:
        """Open a new session."""
        opened = self.client.call(
            "open", title=title, agent=agent, project=project, metadata=metadata, budget_tokens=budget_tokens,
            budget_usd=budget_usd,
        )  # fmt: skip
        return OpenSession(self.client, opened.id)

    def get(self, id: str) -> OpenSession:
        """The session with this id, or with the only id that begins so."""
        return OpenSession(self.client, self.client.call("show", session=id).session.id)

    def resume(self, id: str, *, reason: str = "", runtime: str = "") -> OpenSession:
        """Go on with a session, whatever state it was left in; only an archived or erased one is refused.

        A lease of a process that has ended on this machine is given back. `unanswered` has the calls under way.
        """
        session = self.get(id)
        session.take_back()
        try:
            session.resume(reason=reason, runtime=runtime)
        except WrongState as error:
            # Who was killed left the session as it was, and another may have resumed it just now.
            if error.details.get("state") not in ("opened", "active") or error.details.get("over_budget"):
                raise
        return session

    def sessions(self, **filters: Any) -> list[SessionLine]:
        """Sessions, those with the latest activity first; the filters are those of `clew sessions`."""
        result: list[SessionLine] = self.client.call("sessions", **filters)
        return result

    def search(self, query: str = "", **filters: Any) -> SearchPage:
        """Search what was asked, answered, run and returned; the filters are those of `clew search`."""
        result: SearchPage = self.client.call("search", query=query, **filters)
        return result

    def recall(self, query: str = "", **filters: Any) -> Recall:
        """What answers a question; without one, what is known. The filters are those of `clew recall`."""
        result: Recall = self.client.call("recall", query=query, **filters)
        return result

    def usage(self, *by: str, **filters: Any) -> UsageReport:
        """Tokens and cost, by day or by what is named; the filters are those of `clew usage`."""
        result: UsageReport = self.client.call("usage", by=list(by) or None, **filters)
        return result

    def usage_blocks(self, **filters: Any) -> UsageBlocks:
        """Tokens and cost by windows of five hours; the filters are those of `clew usage --blocks`."""
        result: UsageBlocks = self.client.call("usage_blocks", **filters)
        return result

    def files(self, path: str = "", **filters: Any) -> list[FileTouch]:
        """Which sessions touched a file, or files of a folder or a pattern, and how; without one, the most touched."""
        result: list[FileTouch] = self.client.call("files", path=path, **filters)
        return result

    def diff(self, left: str | OpenSession, right: str | OpenSession) -> Difference:
        """Where two sessions part, and what each has since."""
        result: Difference = self.client.call("diff", left=_id(left), right=_id(right))
        return result

    def tail(self, *, after: int = 0, project: str = "") -> list[e.Event]:
        result: list[e.Event] = self.client.call("tail", after=after, project=project)
        return result

    def verify(self, id: str | None = None) -> list[Verified]:
        result: list[Verified] = self.client.call("verify", session=id)
        return result

    def capture(self, paths: list[str] | None = None, *, runtime: str = "", home: str = "") -> Iterator[Captured]:
        """Capture the sessions of agent programs on this machine; tells what became of each file, as it is done."""
        from clew.service.capture.changed_files import split_into_portions

        files: FoundFiles = self.client.call("capture_find", runtime=runtime, home=home, paths=paths)
        yield from files.unchanged
        yield from files.damaged
        for portion in split_into_portions(files.changed):
            yield from self.client.call("capture", files=portion)

    def resume_in(
        self, id: str, runtime: str, *, cwd: str = "", at: int | None = None, strict: bool = False
    ) -> Materialised:
        """Write a session as a native one of another program; returns its resume command and what was carried."""
        made: Materialised = self.client.call("materialise", session=id, runtime=runtime, cwd=cwd, at=at, strict=strict)
        return made

    def push(self, *sessions: str, remote: str = "", again: bool = False) -> list[Pushed]:
        """Send what is new of the shared projects to the servers they are shared with, or these sessions."""
        pushed: list[Pushed] = self.client.call("push", sessions=list(sessions) or None, remote=remote, again=again)
        return pushed

    def pull(self, id: str, *, remote: str = "") -> OpenSession:
        """Bring a session from a server, with its history, its blobs and its native files."""
        return OpenSession(self.client, self.client.call("pull", session=id, remote=remote).session)

    def close(self) -> None:
        self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class OpenSession:
    """One session, to be written and read."""

    def __init__(self, client: Client, id: str) -> None:
        self._client = client
        self.id = id
        self.scratch = Scratch(self)
        self._lease: Lease | None = None

    def __repr__(self) -> str:
        return f"<session {self.id}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._call("head").state not in ("opened", "active"):
            return
        if error is None:
            self.close()
        else:
            self.pause(reason=f"{type(error).__name__}: {error}"[:500])

    # Writing ----------------------------------------------------------------------------------------------------------

    def append(self, *drafts: e.Draft | e.Body | dict[str, Any], expect: int | None = None) -> Appended:
        """Append what happened, all or none."""
        values = [e.Draft(body=draft) if isinstance(draft, e.Body) else draft for draft in drafts]
        return self._call("append", drafts=values, expect=expect, **self._fence())  # type: ignore[no-any-return]

    def message(self, role: str, text: str = "", *, parts: Iterable[e.Part] = (), model: str = "") -> int:
        """Add a message; returns its seq."""
        return self._add(e.MessageAdded(role=role, text=text, parts=tuple(parts), model=model))

    def user(self, text: str) -> int:
        return self.message("user", text)

    def assistant(self, text: str, *, model: str = "") -> int:
        return self.message("assistant", text, model=model)

    def start_turn(self, *, turn: str = "", model: str = "") -> int:
        return self._add(e.TurnStarted(turn=turn, model=model))

    def end_turn(self, *, usage: e.Usage | None = None, turn: str = "", stop_reason: str = "", model: str = "") -> int:
        return self._add(e.TurnEnded(turn=turn, usage=usage, stop_reason=stop_reason, model=model))

    def call(self, tool: str, input: Any = None, *, touched: Iterable[e.Touch] = ()) -> Call:
        """Record a tool call; say what it returned with `returned`, or use it as a block."""
        call = Call(self, new_id(), tool, {} if input is None else input)
        self._add(e.CallMade(call=call.id, tool=tool, input=_raw(call.input), touched=tuple(touched)))
        return call

    @property
    def unanswered(self) -> list[Call]:
        """The calls of the last turn that have not returned: under way, or left so by a process that was killed."""
        items = (item for turn in self.transcript(last=1) for item in turn.items if item.returned is None)
        bodies = (item.event.body for item in items if item.event is not None)
        return [
            Call(self, body.call, body.tool, msgspec.json.decode(body.input))
            for body in bodies
            if isinstance(body, e.CallMade)
        ]

    def remember(self, text: str, *, evidence: Iterable[int] = (), scope: str = "session", fact: str = "") -> str:
        """Learn a fact that outlives the conversation; returns its id."""
        learned: Remembered = self._call(
            "remember", text=text, evidence=list(evidence), scope=scope, fact=fact, **self._fence()
        )
        return learned.fact

    def retire(self, fact: str, *, reason: str = "") -> int:
        """Retire a fact that no longer holds; returns the seq."""
        return int(self._call("retire", fact=fact, reason=reason, **self._fence()).seq)

    def decide(self, choice: str, *, why: str = "", rejected: Iterable[str] = (), decision: str = "") -> str:
        """Record a decision with its reason; returns its id."""
        made: Decided = self._call(
            "decide", choice=choice, why=why, rejected=list(rejected), decision=decision, **self._fence()
        )
        return made.decision

    def reverse(self, decision: str, *, reason: str = "") -> int:
        """Reverse a decision; returns the seq."""
        return int(self._call("reverse", decision=decision, reason=reason, **self._fence()).seq)

    def note_progress(self, done: str = "", *, next: str = "", open: Iterable[str] = ()) -> int:
        """Note what is done, what is next and what is open; returns the seq."""
        return int(self._call("progress", done=done, next=next, open=list(open), **self._fence()).seq)

    # Labels -----------------------------------------------------------------------------------------------------------

    def title(self, title: str) -> None:
        """Give the session a title; no title that its program writes later replaces it."""
        self._call("title", title=title)

    def tag(self, *tags: str, remove: bool = False) -> tuple[str, ...]:
        """Put tags on the session, or take them away; returns those it has."""
        return self._call("tag", tags=list(tags), remove=remove).tags  # type: ignore[no-any-return]

    def star(self, *, remove: bool = False) -> None:
        """Star the session for yourself, or take the star away."""
        self._call("star", remove=remove)

    def note(self, text: str) -> None:
        """Add a note to the session."""
        self._call("note", text=text)

    # Lifecycle --------------------------------------------------------------------------------------------------------

    def pause(self, *, reason: str = "") -> None:
        self._call("pause", reason=reason, **self._fence())

    def resume(self, *, reason: str = "", runtime: str = "") -> None:
        self._call("resume", reason=reason, runtime=runtime, **self._fence())

    def close(self, *, outcome: str = "completed", summary: str = "") -> None:
        self._call("close", outcome=outcome, summary=summary, **self._fence())

    def archive(self, *, reason: str = "") -> None:
        self._call("archive", reason=reason, **self._fence())

    def fork(self, *, at: int | None = None, title: str | None = None) -> OpenSession:
        """A child that shares everything up to and including `at` (default: now)."""
        return OpenSession(self._client, self._call("fork", at=at, title=title).id)

    def acquire(self, *, seconds: float = 60.0, holder: str = "") -> Lease:
        """Become the only writer for some seconds; from now on every write of this object is fenced."""
        self._lease = self._call("lease_acquire", seconds=seconds, holder=holder or new_holder(self._client.principal))
        return self._lease

    def take_back(self) -> bool:
        """Give back the lease of a process of this machine that has ended; returns whether there was one."""
        holder = self._call("head").holder
        if holder is None or not has_ended(holder):
            return False
        # Under the same name it is the holder's own lease; a late write of the former one is refused all the same.
        lease: Lease = self._call("lease_acquire", seconds=1.0, holder=holder)
        self._call("lease_release", lease=lease.epoch)
        return True

    def renew(self, *, seconds: float = 60.0) -> None:
        self._lease = self._call("lease_renew", seconds=seconds, **self._fence())

    def release(self) -> None:
        self._call("lease_release", **self._fence())
        self._lease = None

    # Reading ----------------------------------------------------------------------------------------------------------

    @property
    def info(self) -> SessionInfo:
        return self.detail.session

    @property
    def detail(self) -> SessionDetail:
        return self._call("show")  # type: ignore[no-any-return]

    @property
    def head(self) -> int:
        return int(self._call("head").head)

    @property
    def working_set(self) -> list[Touched]:
        return self.detail.working_set

    def events(self, *, after: int = 0, upto: int | None = None) -> list[e.Event]:
        return self._call("events", after=after, upto=upto)  # type: ignore[no-any-return]

    def transcript(self, *, last: int | None = None, upto: int | None = None) -> Iterator[Turn]:
        """The turns of the session, or only the last ones; each as a whole, read a page at a time."""
        from clew.model.transcript import joined

        return joined(self._turns(last, upto))

    def _turns(self, last: int | None, upto: int | None) -> Iterator[Turn]:
        page: Transcript = self._call("transcript", last=last, upto=upto)
        yield from page.turns
        while page.next:
            page = self._call("transcript", after=page.next, upto=upto)
            yield from page.turns

    # Objects ----------------------------------------------------------------------------------------------------------

    def put(self, name: str, source: Source | bytes, *, media_type: str = "", progress: bool = False) -> ObjectInfo:
        """Store an open file, or bytes, as an artifact; one of `progress` is shown to the next session."""
        pieces = [source] if isinstance(source, bytes | bytearray) else source
        return self._client.put_object(self.id, name, pieces, media_type=media_type, progress=progress, **self._fence())

    def open(self, object: str) -> BinaryIO:
        """An object of this session as a file to read: by its name, or by its digest or a beginning of it."""
        from clew.store.objects.objects import as_file

        return as_file(self._client.open_object(self.id, object).pieces)

    def stat(self, object: str) -> ObjectInfo:
        """What an object of this session is: its digest, its size, its type."""
        return self._call("object_stat", object=object)  # type: ignore[no-any-return]

    @property
    def objects(self) -> list[ObjectInfo]:
        """The objects that this session names, newest first."""
        return self._call("object_list")  # type: ignore[no-any-return]

    def knowledge(self, *, upto: int | None = None) -> Knowledge:
        """Facts, decisions, progress and scratch as they stand, or stood at an event."""
        return knowledge.fold(self.events(upto=upto))

    # Parts ------------------------------------------------------------------------------------------------------------

    def _call(self, name: str, /, **arguments: Any) -> Any:
        return self._client.call(name, session=self.id, **arguments)

    def _add(self, body: e.Body) -> int:
        return self.append(body).seqs[0]

    def _fence(self) -> dict[str, Any]:
        return {} if self._lease is None else {"lease": self._lease.epoch}


class Call:
    """A tool call under way. As a block it returns `output`, or fails with the exception.

    A block that the end of the program leaves (Ctrl-C, sys.exit) says nothing: the call stays unanswered.
    """

    def __init__(self, session: OpenSession, id: str, tool: str, input: Any) -> None:
        self._session = session
        self.id = id
        self.tool = tool
        self.input = input
        self.output: Any = None
        self._returned = False

    def returned(self, output: Any = None, *, failed: bool = False) -> int:
        self._returned = True
        return self._session._add(e.CallReturned(call=self.id, output=_raw(output), failed=failed))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._returned or isinstance(error, KeyboardInterrupt | SystemExit):
            return
        if error is None:
            self.returned(self.output)
        else:
            self.returned(f"{type(error).__name__}: {error}", failed=True)


class Scratch(MutableMapping[str, Any]):
    """Named JSON values of a session. They live in the log, so pause, resume and another machine find them exactly."""

    def __init__(self, session: OpenSession) -> None:
        self._session = session

    def __getitem__(self, name: str) -> Any:
        return msgspec.json.decode(self._values()[name])

    def __setitem__(self, name: str, value: Any) -> None:
        self._session.append(e.ScratchSet(name=name, value=_raw(value)))

    def __delitem__(self, name: str) -> None:
        if name not in self._values():
            raise KeyError(name)
        self._session.append(e.ScratchCleared(name=name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._values())

    def __len__(self) -> int:
        return len(self._values())

    def _values(self) -> dict[str, msgspec.Raw]:
        values: dict[str, msgspec.Raw] = self._session._call("scratch")
        return values


def _raw(value: Any) -> msgspec.Raw:
    return value if isinstance(value, msgspec.Raw) else msgspec.Raw(msgspec.json.encode(value))


def _id(session: str | OpenSession) -> str:
    return session.id if isinstance(session, OpenSession) else session
