"""Choose the session that a new file belongs to.

A copy of a captured file is refused, because it makes no session. Otherwise, in this order: the session that clew wrote
the file for; a fork of the session whose beginning it repeats; a fork of the session that it names; the session of
another file, when one of the two says nothing; else a session of its own.
"""

import os
import time
from collections.abc import Callable, Iterable

import msgspec

from clew.model.access import Right
from clew.model.conversation import SPOKEN
from clew.model.events import Draft, Opaque, RuntimeAttached
from clew.model.session import Session, State
from clew.runtimes.contract import Identity, Reading
from clew.runtimes.records import QUARANTINED, read_lines
from clew.service.access.agent_rules import agent_for
from clew.service.capture.reconcile import (
    SharedBeginning,
    fork_at,
    has_all,
    is_spoken,
    shared_beginning,
    without_written_by_clew,
)
from clew.service.capture.run import AlreadyCaptured, CaptureRun, NothingSaidYet, ParentNotCaptured, Source
from clew.service.kernel.call import permit, target_of
from clew.service.privacy.mask_on_write import masked_if_required
from clew.store.log.opening import Forking, Opening
from clew.store.native_files.lookup import files_of, files_with_native_id, files_with_root, session_of
from clew.store.native_files.native_file import NativeFile
from clew.store.native_files.stored_bytes import load_bytes

HOUR_NS = 3_600_000_000_000


class NewFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is not stored yet, as far as it was read.

    `root` is the identity of its first record. `drafts` come from the part that was read, `all_drafts` reads them all.
    """

    source: Source
    identity: Identity
    root: str
    drafts: list[Draft]
    all_drafts: Callable[[], Iterable[Draft]]


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The session of a new file.

    `written` names the records that clew itself wrote into the file, `shared` the ones that its parent has already.
    """

    into: Session | Opening | Forking
    written: str = ""
    shared: SharedBeginning | None = None


def choose_session(run: CaptureRun, new: NewFile) -> Choice:
    """Choose the session of a new file."""
    identity = new.identity
    run.batch.commit_if_waiting({identity.fork_of, new.root, identity.native})
    run.batch.announce({new.root, identity.native})
    _refuse_copy(run, new)
    relatives = files_with_root(run.store, new.source.runtime, new.root) if new.root else []
    relatives = [relative for relative in relatives if not relative.erased]
    return (
        _continue_what_clew_wrote(run, new, relatives)
        or _fork_from_shared_beginning(run, new, relatives)
        or _fork_from_named_parent(run, new)
        or _join_twin(run, new)
        or _open_new_session(run, new)
    )


def _refuse_copy(run: CaptureRun, new: NewFile) -> None:
    """Raise `AlreadyCaptured` for a file in which nothing is said that the session of its own native id lacks."""
    for twin in files_with_native_id(run.store, new.source.runtime, new.identity.native):
        if twin.erased:
            continue
        session = session_of(run.store, twin)
        if not run.context.caller.rule(Right.APPEND, target_of(session)).allowed:
            continue
        drafts = without_written_by_clew(list(new.all_drafts()), twin.written)
        spoken = [draft for draft in masked_if_required(run.context, session.project, drafts) if is_spoken(draft)]
        if spoken and has_all(run.store.read(session), spoken):
            raise AlreadyCaptured(twin)


def _continue_what_clew_wrote(run: CaptureRun, new: NewFile, relatives: list[NativeFile]) -> Choice | None:
    """The fork that clew opened when it wrote this file; another fork if another file already continues that one."""
    relative = next((relative for relative in relatives if relative.written), None)
    if relative is None:
        return None
    session = session_of(run.store, relative)
    permit(run.context, Right.APPEND, session)
    others = [file for file in files_of(run.store, session) if file.key != relative.key]
    if others and session.parent is not None:
        into: Session | Forking = _fork(run, new, run.store.session(session.parent), session.upto)
    else:
        into = _append_or_fork(run, new, session)
    return Choice(into=into, written=relative.written)


def _fork_from_shared_beginning(run: CaptureRun, new: NewFile, relatives: list[NativeFile]) -> Choice | None:
    """A fork of the session with which the file shares the most records, from the last shared one."""
    if new.source.format.split is not None or new.source.format.rows is not None:
        return None  # Only the records of line files have identities that a program's own fork repeats.
    best: tuple[SharedBeginning, Session] | None = None
    for relative in relatives:
        session = session_of(run.store, relative)
        _postpone_if_incomplete(run, relative)
        shared = shared_beginning(run.store.read(session), new.all_drafts())
        if shared and (best is None or len(shared.sources) > len(best[0].sources)):
            best = shared, session
    if best is None:
        return None
    shared, session = best
    return Choice(into=_fork(run, new, session, shared.at), shared=shared)


def _fork_from_named_parent(run: CaptureRun, new: NewFile) -> Choice | None:
    """A fork of the session that the file names, from the last event of the bytes that it continues."""
    parent = new.identity.fork_of
    for candidate in files_with_native_id(run.store, new.source.runtime, parent) if parent else []:
        _postpone_if_incomplete(run, candidate)
        if not candidate.erased and (at := _last_event_of_bytes(run, new, candidate)):
            return Choice(into=_fork(run, new, session_of(run.store, candidate), at))
    return None


def _join_twin(run: CaptureRun, new: NewFile) -> Choice | None:
    """The session of another file with the same native id, if one of the two files says nothing.

    A program may leave a second file with nothing said in it. It belongs to the session that it names.
    """
    is_silent = not any(is_spoken(draft) for draft in new.drafts)
    for twin in files_with_native_id(run.store, new.source.runtime, new.identity.native):
        if not twin.erased and twin.machine == run.context.machine:
            session = session_of(run.store, twin)
            if is_silent or not any(run.store.read(session, kinds=[body.kind for body in SPOKEN])):
                permit(run.context, Right.APPEND, session)
                return Choice(into=_append_or_fork(run, new, session))
    return None


def _open_new_session(run: CaptureRun, new: NewFile) -> Choice:
    """A session of its own, in the project of its repository or folder, for the agent that is registered."""
    identity, runtime = new.identity, new.source.runtime
    attached = [draft.body for draft in new.drafts if isinstance(draft.body, RuntimeAttached)]
    cwd = next((body.cwd for body in attached if body.cwd), "")
    found = run.projects.find(identity, runtime, cwd)
    if found.is_guess and _has_just_begun(new):
        raise NothingSaidYet
    permit(run.context, Right.APPEND, found.project)
    found = run.projects.settle(found)
    project = found.project
    registered = agent_for(run.agents(), project=project, runtime=runtime, path=cwd, name=identity.agent)
    agent = registered or identity.agent or runtime
    permit(run.context, Right.APPEND, project)
    opening = Opening(
        project=project, agent=agent, metadata=_metadata(run, new, found.address), captured_from=found.captured_from
    )
    return Choice(into=opening)


def _has_just_begun(new: NewFile) -> bool:
    """Whether a file has one record in which nothing is said, and was written to within the last hour."""
    if len(new.drafts) != 1 or not isinstance(new.drafts[0].body, Opaque) or new.drafts[0].body.kind == QUARANTINED:
        return False
    changed_ns = new.source.fingerprint.split(":")[1:2]
    return changed_ns != [] and changed_ns[0].isdecimal() and time.time_ns() - int(changed_ns[0]) < HOUR_NS


def _append_or_fork(run: CaptureRun, new: NewFile, session: Session) -> Session | Forking:
    """The session itself if it takes events; if it is archived, a fork of it."""
    head = run.store.head(session)
    return session if head.state != State.ARCHIVED else _fork(run, new, session, head.head)


def _fork(run: CaptureRun, new: NewFile, session: Session, at: int) -> Forking:
    permit(run.context, Right.APPEND, session)
    return fork_at(run.store, session, at, _metadata(run, new))


def _metadata(run: CaptureRun, new: NewFile, repository: str = "") -> str:
    identity = new.identity
    metadata = {"runtime": new.source.runtime, "native": identity.native, "machine": run.context.machine}
    metadata |= {"parent": identity.parent} if identity.parent else {}
    metadata |= {"call": identity.call} if identity.call else {}
    metadata |= {"repository": repository} if repository else {}
    return msgspec.json.encode(metadata).decode()


def _postpone_if_incomplete(run: CaptureRun, parent: NativeFile) -> None:
    """Postpone a fork while only a part of its parent is stored and the rest can still be read."""
    if not parent.fingerprint and parent.machine == run.context.machine and os.path.lexists(parent.path):
        raise ParentNotCaptured


def postpone_until_parent_is_captured(run: CaptureRun, source: Source, identity: Identity) -> None:
    """Postpone a fork once if its parent is neither stored nor queued: it may be among the files still to come."""
    parent = identity.fork_of
    if not parent or run.is_last_pass or run.batch.is_waiting(parent):
        return
    if not files_with_native_id(run.store, source.runtime, parent):
        raise ParentNotCaptured


def _last_event_of_bytes(run: CaptureRun, new: NewFile, parent: NativeFile) -> int:
    """The seq of the parent's last event that came from the bytes which the new file continues; 0 if there is none."""
    format = new.source.format
    reading = Reading(parent.runtime, parent.native_id, format.state())
    translated = read_lines(format, reading, load_bytes(run.store, parent)[: new.identity.fork_bytes])
    sources = {draft.source for draft in translated.drafts}
    events = run.store.read(session_of(run.store, parent))
    return max((event.seq for event in events if event.source in sources), default=0)
