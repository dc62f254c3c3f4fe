"""Links to git: which sessions led to a commit, and which commits came out of a session."""

import os
import re
from typing import Annotated, Any

import msgspec

from clew.model.access import Right
from clew.model.errors import ClewError, InvalidInput, NotFound
from clew.model.file_tree import shown
from clew.model.session import Session
from clew.service.find.filters import Project, in_project, project_keys
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.workspaces.git import Git
from clew.service.workspaces.git_state import repository_of
from clew.service.workspaces.snapshot import refuse_on_server
from clew.store.projects import list_projects
from clew.views.commits import PRINTED, SHORTEST, LinkedCommit
from clew.views.files import TouchedFile, name_of

MOST_ROWS = 10_000
# So many files of a commit are looked up among those that sessions wrote, and so long before it.
MOST_FILES = 500
BEFORE_US = 30 * 24 * 3600 * 1_000_000
SECOND_US = 1_000_000
CALL, HEAD, FILES = "call", "head", "files"


class CommitLink(msgspec.Struct, frozen=True, kw_only=True):
    """A commit, a session that led to it, and what says so."""

    commit: str
    """Its name in git; where only a call printed it, the beginning of it."""
    how: str
    """call: a call of the session made it; head: it was made in the session's folder during a turn; files: the session
    wrote files of it before, which is weak."""
    session: str
    title: str
    runtime: str
    project: str
    person: str
    seq: int
    at: int
    files: list[str] = []


@operation(right=Right.READ, route="GET /commits", filters_by_reach=True, reads_views=True)
def commit(
    context: Context,
    sha: Annotated[str, msgspec.Meta(description="A commit, or a beginning of its name. [default: all]")] = "",
    *,
    session: Session | None = None,
    project: Project = "",
    folder: Annotated[
        str, msgspec.Meta(description="A repository on this machine with the commit, to look for its files, too.")
    ] = "",
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_ROWS, description="How many at the most.")] = 50,
) -> list[CommitLink]:
    """Tell which sessions led to a commit, and by which event; without a commit: which came out of sessions."""
    if folder:
        refuse_on_server(context)
    top = _top(folder) if folder and sha else b""
    whole = _whole(top, sha) if top else ""
    sha = whole or sha.lower()
    if sha and not re.fullmatch("[0-9a-f]{4,64}", sha):
        raise InvalidInput(f"{sha!r} is no name of a commit; give at least 4 of its hexadecimal digits", commit=sha)
    context.views.catch_up()
    only: dict[str, Any] = in_project(project_keys(context, project, Right.READ)) if project else {}
    only |= context.reach(Right.READ)
    links = _linked(context, sha, only | ({"session": session.key} if session else {}))
    if whole and session is None:
        known = {link.session for link in links}
        links += [link for link in _by_files(context, top, whole, only) if link.session not in known]
    return links[:limit]


# Looking them up ------------------------------------------------------------------------------------------------------


def _linked(context: Context, sha: str, only: dict[str, Any]) -> list[CommitLink]:
    """What was recorded, and what calls printed. One row for each commit of a session, the strongest."""
    short = sha[:SHORTEST]
    with context.views.read() as tx:
        rows = [
            LinkedCommit(*row) for row in tx.run("commits_found", first=short, end=f"{short}g", limit=MOST_ROWS, **only)
        ]
    names = list_projects(context.store)
    whole = {row.sha for row in rows if row.how != PRINTED}
    links: dict[tuple[str, str], CommitLink] = {}
    for row in rows:
        if not (row.sha.startswith(sha) or sha.startswith(row.sha)):
            continue
        name = next((known for known in whole if known.startswith(row.sha)), row.sha)
        link = CommitLink(
            commit=sha if sha.startswith(name) else name, how=CALL if row.how == PRINTED else HEAD, session=row.id,
            title=row.title, runtime=row.runtime, project=names.get(row.project, ""), person=row.person, seq=row.seq,
            at=row.at,
        )  # fmt: skip
        before = links.get((link.commit, link.session))
        if before is None or (before.how, link.how) == (HEAD, CALL):
            links[link.commit, link.session] = link
    return sorted(links.values(), key=lambda link: (link.how != CALL, -link.at))


def _top(folder: str) -> bytes:
    repository = repository_of(os.path.realpath(os.path.expanduser(os.fsencode(folder))))
    return repository.top if repository is not None else b""


def _whole(top: bytes, sha: str) -> str:
    """The whole name of a commit in a repository; empty if it is not there."""
    try:
        return Git(top).text("rev-parse", "--verify", "--quiet", "--end-of-options", f"{sha}^{{commit}}")
    except ClewError:
        return ""  # The sessions know the commit, or nobody does.


def _by_files(context: Context, top: bytes, sha: str, only: dict[str, Any]) -> list[CommitLink]:
    """Sessions that wrote files of the commit in the weeks before it."""
    git = Git(top)
    changed = git("diff-tree", "--root", "--no-commit-id", "--name-only", "--no-renames", "-r", "-z", sha)
    paths = {shown(path): shown(os.path.join(top, path)) for path in changed.split(b"\0")[:MOST_FILES] if path}
    when = re.search(rb"^committer .*> (\d+) [+-]\d+$", git("cat-file", "commit", sha), re.MULTILINE)
    if when is None:
        raise NotFound(f"the commit {sha} has no time", commit=sha)
    last = (int(when[1]) + 1) * SECOND_US
    wrote: dict[str, dict[str, TouchedFile]] = {}
    with context.views.read() as tx:
        for path, whole in paths.items():
            rows = tx.run("files_by_name", name=name_of(path), type="file", least_written=1, limit=MOST_ROWS, **only)
            for touched in (TouchedFile(*row) for row in rows):
                if touched.what in (path, whole) and last - BEFORE_US <= touched.last_at <= last:
                    wrote.setdefault(touched.id, {})[path] = touched
    names = list_projects(context.store)
    links = []
    for id, files in wrote.items():
        newest = max(files.values(), key=lambda touched: touched.last_at)
        links.append(
            CommitLink(
                commit=sha, how=FILES, session=id, title=newest.title, runtime=newest.runtime,
                project=names.get(newest.project, ""), person=newest.person, seq=newest.written_seq,
                at=newest.last_at, files=sorted(files),
            )
        )  # fmt: skip
    return sorted(links, key=lambda link: (-len(link.files), -link.at))
