"""Composition: settings -> database -> store -> context -> client. The only place that wires."""

import getpass
import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from clew.model.access import owner_of_everything
from clew.model.errors import ClewError, Damaged, InvalidInput, Unavailable

if TYPE_CHECKING:
    from clew.client import Plane
    from clew.remote import Remote
    from clew.service.access.authenticator import Authenticator
    from clew.store import Store


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Where things are and who is asking."""

    home: Path
    store: str
    principal: str
    machine: str


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `clew doctor`: what was looked at, whether it is well, and what to do if not."""

    what: str
    ok: bool
    found: str
    advice: str = ""


def settings(
    *, store: str | None = None, home: str | os.PathLike[str] | None = None, principal: str | None = None
) -> Settings:
    """Settings from arguments, then CLEW_HOME, CLEW_STORE, CLEW_PRINCIPAL and CLEW_MACHINE, then defaults."""
    place = Path(home or os.environ.get("CLEW_HOME") or Path.home() / ".clew").expanduser().absolute()
    return Settings(
        home=place,
        store=store or os.environ.get("CLEW_STORE") or f"sqlite:///{place / 'clew.db'}",
        principal=principal or os.environ.get("CLEW_PRINCIPAL") or f"person:{_login()}",
        machine=os.environ.get("CLEW_MACHINE") or os.uname().nodename or "localhost",
    )


def connect(
    store: str | None = None, *, home: str | os.PathLike[str] | None = None, principal: str | None = None
) -> "Plane":
    """Open the store named by the arguments or the environment and return its sessions."""
    from clew.client import Local, Plane

    chosen = settings(store=store, home=home, principal=principal)
    if is_remote(chosen.store):
        # The same face; what only a log of one's own has, it refuses.
        return Plane(cast(Local, _remote(chosen)))
    from clew.service import Context
    from clew.store import open_store

    opened = open_store(chosen.store)
    context = Context(
        store=opened,
        unrestricted=opened,
        principal=chosen.principal,
        grants=(owner_of_everything(chosen.principal),),
        machine=chosen.machine,
        home=str(chosen.home),
    )
    return Plane(Local(context))


def is_remote(store: str) -> bool:
    """Whether a store is a server's, and so is asked over HTTP."""
    return store.startswith(("http://", "https://"))


def _remote(chosen: Settings) -> "Remote":
    from clew.remote import Remote, checked_url
    from clew.sync.remotes import key_for

    url = checked_url(chosen.store)
    return Remote(url, key_for(chosen.home, url))


def door(chosen: Settings) -> "Authenticator":
    """The door of a server on the chosen store."""
    from clew.service.access.authenticator import Authenticator
    from clew.store import open_store

    return Authenticator(
        open_store(chosen.store), principal=chosen.principal, home=str(chosen.home), machine=chosen.machine
    )  # fmt: skip


def migrate(chosen: Settings) -> list[str]:
    """Bring the store to this program's schema; returns the names of the steps taken."""
    if is_remote(chosen.store):
        raise InvalidInput("a server's store is migrated on the server's own machine: run `clew migrate` there")
    from clew.store import open_database
    from clew.store.database import migrate as schema

    database, _ = open_database(chosen.store)
    try:
        return schema.migrate(database)
    finally:
        database.close()


def diagnose(chosen: Settings) -> list[Finding]:
    """Look at everything clew stands on; never raises for what is wrong with it."""
    import platform

    import clew

    found = [Finding(what="clew", ok=True, found=f"{clew.__version__} on Python {platform.python_version()}")]
    if is_remote(chosen.store):
        return [*found, _server(chosen)]
    if chosen.store.startswith("sqlite:///"):
        home = Path(chosen.store.removeprefix("sqlite:///")).expanduser().absolute().parent
        found += [_home(home), _room(home)]
    return found + _store(chosen)


def _server(chosen: Settings) -> Finding:
    try:
        remote = _remote(chosen)
        return Finding(what="server", ok=True, found=f"{remote.url} lets you in as {remote.principal}")
    except ClewError as error:
        return Finding(what="server", ok=False, found=str(error), advice=f"error code {error.code}")


def _home(home: Path) -> Finding:
    if not home.exists():
        return Finding(what="home", ok=True, found=f"{home} (made on first use)")
    mode = home.stat().st_mode & 0o777
    if not os.access(home, os.W_OK | os.X_OK):
        return Finding(
            what="home", ok=False, found=f"{home} cannot be written", advice="set CLEW_HOME to a folder of yours"
        )
    if mode & 0o077:
        return Finding(
            what="home", ok=False, found=f"{home} is open to others (mode {mode:o})", advice=f"chmod 700 {home}"
        )
    return Finding(what="home", ok=True, found=f"{home} (private)")


def _room(home: Path) -> Finding:
    import shutil

    place = next(folder for folder in (home, *home.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    enough = free > 200 * 1024 * 1024
    return Finding(
        what="free disk", ok=enough, found=f"{free / 1e9:.1f} GB", advice="" if enough else "free at least 200 MB"
    )


def _store(chosen: Settings) -> list[Finding]:
    from clew.store import open_store
    from clew.store.database import migrate as schema
    from clew.store.log.verify import WHAT_HELPS, verify_all

    try:
        store = open_store(chosen.store)
    except ClewError as error:
        return [Finding(what="store", ok=False, found=str(error), advice=_advice(error))]
    with store:
        about = store.database.describe()
        found = [
            Finding(
                what="store",
                ok=True,
                found=f"{about['database']} {about['version']} ({about['driver']}), {about['place']}",
            ),
            Finding(what="schema", ok=True, found=f"version {schema.current()}"),
        ]
        if store.database.dialect == "pg":
            found.append(_wall(store))
        try:
            problems = store.database.check()
            found.append(
                Finding(
                    what="integrity",
                    ok=not problems,
                    found="ok" if not problems else "; ".join(problems[:5]),
                    advice=WHAT_HELPS * bool(problems),
                )
            )
            sessions = events = 0
            broken = []
            for one in verify_all(store):
                sessions, events = sessions + bool(one.session), events + one.events
                broken += one.problems
            first = f"; first: {broken[0].place}: {broken[0].what}" if broken else ""
            found.append(
                Finding(
                    what="chains",
                    ok=not broken,
                    found=f"{sessions} sessions, {events} events, {len(broken)} problems{first}",
                    advice="run `clew verify` for all of them" if broken else "",
                )
            )
        except ClewError as error:
            found.append(Finding(what="integrity", ok=False, found=str(error), advice=_advice(error)))
        found.append(_views(store))
    return found


def _advice(error: ClewError) -> str:
    """What to do about an error; a database of another program is none that is damaged."""
    from clew.store.log.verify import WHAT_HELPS

    return WHAT_HELPS if isinstance(error, Damaged) and "place" in error.details else f"error code {error.code}"


def _wall(store: "Store") -> Finding:
    problem = store.database.row_security_problem()
    return Finding(
        what="wall",
        ok=not problem,
        found=problem or "row level security stands between projects",
        advice="connect as a role of its own that is neither a superuser nor has BYPASSRLS; see docs/access.md"
        * bool(problem),
    )


def _views(store: "Store") -> Finding:
    from clew.views.upkeep import Views

    views = Views(store)
    try:
        problems, behind = views.database.check(), views.behind()
    except ClewError as error:
        return Finding(what="views", ok=False, found=str(error), advice=f"error code {error.code}")
    finally:
        views.close()
    told = "up to date" if not behind else f"{behind:,} events behind; whoever reads them next takes those in"
    return Finding(
        what="views",
        ok=not problems,
        found="; ".join(problems[:5]) or told,
        advice="run `clew rebuild`" * bool(problems),
    )


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:
        raise Unavailable("cannot tell who you are; set CLEW_PRINCIPAL, for example to person:ada") from error
