"""Artifacts: what sessions saved under a name. Each time it is saved is a version, an event of the session.

A name belongs to its project: its newest version is that of any session of the project that the caller may read. One
that says how far the work is (`progress`) is shown to the next session of the project.
"""

from collections import Counter
from typing import Annotated, Any

import msgspec

from clew.model.access import Right
from clew.model.errors import InvalidInput, NotFound, TooLarge
from clew.model.events import ArtifactSaved
from clew.model.session import Session
from clew.service.find.filters import Project, in_project, project_keys
from clew.service.kernel.context import Context
from clew.service.kernel.registry import Group, operation
from clew.service.privacy.masking import title_for_caller
from clew.service.sessions.objects import artifact_events, object_open, object_put
from clew.store.projects import list_projects
from clew.views.artifacts import SavedArtifact
from clew.views.contract import when

ARTIFACT = Group("artifact", "Named outputs of sessions, with their versions: reports, builds, progress files.")
# What is saved or given as a text; a larger file is a stream.
TEXT_BYTES = 1024 * 1024

Limit = Annotated[int, msgspec.Meta(ge=1, le=10_000, description="How many at the most.")]
ArtifactName = Annotated[str, msgspec.Meta(min_length=1, max_length=500, description="The name of an artifact.")]


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact, and the event that saved it."""

    session: str
    title: str
    project: str
    seq: int
    name: str
    blob: str
    size: int
    media_type: str
    at: int
    progress: bool = False


class NamedArtifact(Artifact, frozen=True, kw_only=True):
    """The newest version of an artifact, and how many versions there are."""

    versions: int


class ArtifactText(Artifact, frozen=True, kw_only=True):
    """A version of an artifact with its text."""

    text: str


@operation(right=Right.READ, route="GET /artifacts", filters_by_reach=True, reads_views=True)
def artifacts(
    context: Context,
    *,
    session: Session | None = None,
    project: Project = "",
    limit: Limit = 50,
) -> list[Artifact]:
    """List what sessions saved as artifacts, newest first."""
    return _versions(context, session, project, "", limit)


@operation(right=Right.READ, route="GET /artifacts/names", filters_by_reach=True, reads_views=True, group=ARTIFACT)
def artifact_list(
    context: Context,
    *,
    session: Session | None = None,
    project: Project = "",
    progress: Annotated[bool, msgspec.Meta(description="Only those that the next session is shown.")] = False,
    limit: Limit = 50,
) -> list[NamedArtifact]:
    """List artifacts by name, each with its newest version: of a session, a project, or all that you may read."""
    if session is not None:
        return _names_of_session(context, session, progress=progress)[:limit]
    only = _only(context, None, project) | ({"progress": 1} if progress else {})
    names = list_projects(context.store)
    with context.views.read() as tx:
        rows = tx.run("artifacts_by_name", limit=limit, **only, **context.reach(Right.READ))
    found = [SavedArtifact(*row) for row in rows]
    return [NamedArtifact(**_fields(saved, names), versions=saved.versions) for saved in found]


@operation(right=Right.READ, route="GET /artifacts/versions", filters_by_reach=True, reads_views=True, group=ARTIFACT)
def artifact_versions(
    context: Context,
    name: ArtifactName,
    *,
    session: Session | None = None,
    project: Project = "",
    limit: Limit = 50,
) -> list[Artifact]:
    """List the versions of an artifact, newest first: those of a session, or of all sessions of a project."""
    return _versions(context, session, project, name, limit)


@operation(right=Right.READ, route="GET /artifacts/text", filters_by_reach=True, reads_views=True, group=ARTIFACT)
def artifact_get(
    context: Context,
    name: ArtifactName,
    *,
    session: Session | None = None,
    project: Project = "",
    at: Annotated[int, msgspec.Meta(ge=1, description="The version of this event. [default: the newest]")]
    | None = None,
) -> ArtifactText:
    """Read an artifact that is a text of at most a megabyte: its newest version, or that of an event."""
    found = find_artifact(context, name, session, project, at)
    if found.size > TEXT_BYTES:
        raise TooLarge(
            f"{name} has {found.size:,} bytes, and at most {TEXT_BYTES:,} are given as text; read it as a stream",
            size=found.size, limit=TEXT_BYTES,
        )  # fmt: skip
    data = b"".join(read_artifact(context, found))
    if b"\0" in data[:8192]:
        raise InvalidInput(f"{name} is no text; read it as a stream")
    return ArtifactText(**msgspec.structs.asdict(found), text=data.decode("utf-8", "replace"))


@operation(right=Right.APPEND, route="POST /sessions/{session}/artifacts", group=ARTIFACT)
def artifact_save(
    context: Context,
    session: Session,
    name: ArtifactName,
    text: Annotated[str, msgspec.Meta(max_length=TEXT_BYTES, description="What is in it.")],
    *,
    media_type: Annotated[str, msgspec.Meta(description="Its type. [default: guessed from the name]")] = "",
    progress: Annotated[bool, msgspec.Meta(description="Show it to the next session of the project.")] = False,
    lease: Annotated[int, msgspec.Meta(description="The epoch of the lease you hold.")] | None = None,
) -> Artifact:
    """Save a text as a new version of an artifact; a version that is the same as the last one is stored once."""
    info = object_put(
        context, session, [text.encode()], name=name, media_type=media_type, progress=progress, lease=lease
    )
    at = next(event.at for event in context.store.read(session, after=info.seq - 1, upto=info.seq))
    return Artifact(
        session=session.id, title=session.title, project=session.project, seq=info.seq, name=info.name,
        blob=info.digest, size=info.size, media_type=info.media_type, at=at, progress=progress,
    )  # fmt: skip


def find_artifact(
    context: Context, name: str, session: Session | None = None, project: str = "", at: int | None = None
) -> Artifact:
    """A version of an artifact, by default the newest."""
    found = _versions(context, session, project, name, 1 if at is None else 10_000)
    found = [version for version in found if at in (None, version.seq)]
    if not found:
        where = f"session {session.id}" if session else f"project {project}" if project else "what you may read"
        version = "" if at is None else f" of event {at}"
        raise NotFound(f"there is no artifact {name[:80]!r}{version} in {where}", missing="artifact")
    return found[0]


def read_artifact(context: Context, artifact: Artifact) -> Any:
    """The bytes of a version piece by piece, masked as the caller may see them."""
    session = context.store.session(artifact.session, context.reach(Right.READ))
    return object_open(context, session, artifact.blob, at=artifact.seq).pieces


def _versions(context: Context, session: Session | None, project: str, name: str, limit: int) -> list[Artifact]:
    if session is not None and name:
        return [saved for saved in _of_session(context, session) if saved.name == name][:limit]
    only = _only(context, session, project) | ({"name": name} if name else {})
    names = list_projects(context.store)
    with context.views.read() as tx:
        rows = tx.run("artifacts_newest", limit=limit, **only, **context.reach(Right.READ))
    return [Artifact(**_fields(SavedArtifact(*row), names)) for row in rows]


def _of_session(context: Context, session: Session) -> list[Artifact]:
    """What a session saved, and what it has of its ancestors, newest first."""
    title = title_for_caller(context, session)
    found = []
    for event in artifact_events(context, session):
        if isinstance(saved := event.body, ArtifactSaved):
            found.append(
                Artifact(
                    session=session.id, title=title, project=session.project, seq=event.seq, name=saved.name,
                    blob=saved.blob, size=saved.size, media_type=saved.media_type, at=when(event),
                    progress=saved.progress,
                )
            )  # fmt: skip
    return found


def _names_of_session(context: Context, session: Session, *, progress: bool) -> list[NamedArtifact]:
    saved = _of_session(context, session)
    counts = Counter(version.name for version in saved)
    newest = {version.name: version for version in reversed(saved)}
    return [
        NamedArtifact(**msgspec.structs.asdict(version), versions=counts[version.name])
        for version in sorted(newest.values(), key=lambda version: -version.seq)
        if version.progress or not progress
    ]


def _only(context: Context, session: Session | None, project: str) -> dict[str, Any]:
    context.views.catch_up()
    only: dict[str, Any] = {"session": session.key} if session else {}
    return only | (in_project(project_keys(context, project, Right.READ)) if project else {})


def _fields(saved: SavedArtifact, names: dict[int, str]) -> dict[str, Any]:
    return {
        "session": saved.id, "title": saved.title, "project": names.get(saved.project, ""), "seq": saved.seq,
        "name": saved.name, "blob": saved.blob, "size": saved.size, "media_type": saved.media_type, "at": saved.at,
        "progress": bool(saved.progress),
    }  # fmt: skip
