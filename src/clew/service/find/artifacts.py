"""Artifacts: what sessions saved."""

from typing import Annotated, Any

import msgspec

from clew.model.access import Right
from clew.model.session import Session
from clew.service.find.filters import Project, in_project, project_keys
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.store.projects import list_projects
from clew.views.artifacts import SavedArtifact


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


@operation(right=Right.READ, route="GET /artifacts", filters_by_reach=True, reads_views=True)
def artifacts(
    context: Context,
    *,
    session: Session | None = None,
    project: Project = "",
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000, description="How many at the most.")] = 50,
) -> list[Artifact]:
    """List what sessions saved as artifacts, newest first."""
    context.views.catch_up()
    only: dict[str, Any] = {"session": session.key} if session else {}
    only |= in_project(project_keys(context, project, Right.READ)) if project else {}
    names = list_projects(context.store)
    with context.views.read() as tx:
        rows = tx.run("artifacts_newest", limit=limit, **only, **context.reach(Right.READ))
    return [
        Artifact(
            session=saved.id, title=saved.title, project=names.get(saved.project, ""), seq=saved.seq, name=saved.name,
            blob=saved.blob, size=saved.size, media_type=saved.media_type, at=saved.at,
        )
        for saved in (SavedArtifact(*row) for row in rows)
    ]  # fmt: skip
