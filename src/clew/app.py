"""Composition: settings -> database -> store -> context -> client. The only place that wires."""

import getpass
import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from clew.model.access import owner_of_everything
from clew.model.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from clew.async_plane import Pending
    from clew.client import Client, Plane
    from clew.consumers.runner import Consumer, Runner
    from clew.remote import Remote
    from clew.service.access.authenticator import Authenticator
    from clew.service.kernel.context import Context


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the store and the home are, and who is asking."""

    home: Path
    store: str
    principal: str
    machine: str
    objects: str = ""


def settings(
    *, store: str | None = None, home: str | os.PathLike[str] | None = None, principal: str | None = None
) -> Settings:
    """Settings from arguments, then CLEW_HOME, _STORE, _OBJECTS, _PRINCIPAL and _MACHINE, then defaults."""
    folder = Path(home or os.environ.get("CLEW_HOME") or Path.home() / ".clew").expanduser().absolute()
    return Settings(
        home=folder,
        store=store or os.environ.get("CLEW_STORE") or f"sqlite:///{folder / 'clew.db'}",
        principal=principal or os.environ.get("CLEW_PRINCIPAL") or f"person:{_login()}",
        machine=os.environ.get("CLEW_MACHINE") or os.uname().nodename or "localhost",
        objects=os.environ.get("CLEW_OBJECTS") or "",
    )


def connect(
    store: str | None = None, *, home: str | os.PathLike[str] | None = None, principal: str | None = None
) -> "Plane":
    """Open the store named by the arguments or the environment and return its sessions."""
    from clew.client import Plane

    chosen = settings(store=store, home=home, principal=principal)
    return Plane(remote(chosen) if is_remote(chosen.store) else _local(chosen))


def connect_async(
    store: str | None = None, *, home: str | os.PathLike[str] | None = None, principal: str | None = None
) -> "Pending":
    """Open a store as `connect` does, for asyncio: `async with clew.connect_async() as plane`."""
    from clew import async_plane

    return async_plane.connect(lambda: connect(store, home=home, principal=principal))


def _local(chosen: Settings) -> "Client":
    from clew.local import Local
    from clew.service import Context
    from clew.store import open_store

    store = open_store(chosen.store, objects=chosen.objects)
    context = Context(
        store=store,
        unrestricted=store,
        principal=chosen.principal,
        grants=(owner_of_everything(chosen.principal),),
        machine=chosen.machine,
        home=str(chosen.home),
        open_server=open_server,
        known_sessions={},  # An owner of everything keeps every right for as long as the program runs.
    )
    return Local(context)


def open_server(url: str, key: str, *, patience: float | None = None) -> "Remote":
    """The server at an address, for who holds the key."""
    from clew.remote import Remote

    return Remote(url, key) if patience is None else Remote(url, key, patience=patience)


def runner(
    chosen: Settings,
    context: "Context",
    report: "Callable[[str], None]",
    *,
    captures: bool = False,
    signs: bool = True,
    once: bool = False,
) -> "Runner":
    """The background work of a store: what follows its log, and its jobs; with `captures` this machine's programs."""
    from clew.consumers.capture import captures_of_all_programs
    from clew.consumers.checkpoints import Checkpoints
    from clew.consumers.jobs import Jobs
    from clew.consumers.push import Pushes
    from clew.consumers.runner import Runner
    from clew.consumers.views import FreshViews
    from clew.consumers.witnesses import Witnesses
    from clew.service.access.authenticator import CLEW

    clew = msgspec.structs.replace(context, principal=CLEW, grants=(owner_of_everything(CLEW),))
    consumers: list[Consumer] = [
        Pushes(context, chosen.home, pushed=lambda _: None, report=report), FreshViews(clew), Jobs(clew, report)
    ]  # fmt: skip
    if signs:
        consumers += [Checkpoints(clew), Witnesses(clew)]
    if captures:
        from clew.consumers.workspaces import Workspaces

        consumers.insert(0, captures_of_all_programs(context, chosen.home, report, follows=not once))
        consumers.append(Workspaces(context, report))
    return Runner(context.store, consumers, report)


def is_remote(store: str) -> bool:
    """Whether a store is a server's, and so is asked over HTTP."""
    return store.startswith(("http://", "https://"))


def remote(chosen: Settings) -> "Remote":
    """The server that keeps the chosen store, with the key that is kept for its address."""
    from clew.remote import Remote
    from clew.service.replication.remotes import key_for
    from clew.service.replication.server import checked_url

    url = checked_url(chosen.store)
    return Remote(url, key_for(chosen.home, url))


def authenticator(chosen: Settings, *, opens_servers: bool = False) -> "Authenticator":
    """What lets the callers of a server in, on the chosen store; with `opens_servers` they may push to others."""
    from clew.service.access.authenticator import Authenticator
    from clew.store import open_store

    return Authenticator(
        open_store(chosen.store, objects=chosen.objects), principal=chosen.principal, home=str(chosen.home),
        machine=chosen.machine, open_server=open_server if opens_servers else None,
    )  # fmt: skip


class Migrated(msgspec.Struct, frozen=True):
    """What a migration did."""

    steps: list[str]
    runtime_role: str = ""
    is_new_role: bool = False
    has_new_password: bool = False


def migrate(chosen: Settings, *, runtime_role: str = "") -> Migrated:
    """Bring the store to this program's schema, and set up the role that servers connect as, if one is named."""
    if is_remote(chosen.store):
        raise InvalidInput("a server's store is migrated on the server's own machine: run `clew migrate` there")
    from clew.store import maintenance, open_store
    from clew.views.upkeep import Views

    steps = maintenance.migrate(chosen.store)
    if not chosen.store.startswith(("postgresql://", "postgres://")):
        if runtime_role:
            raise InvalidInput("an SQLite file has no roles; --runtime-role is for PostgreSQL")
        return Migrated(steps)
    with open_store(chosen.store) as store:
        # A server may not make the tables of its views when it is not their owner, so they are made here.
        views = Views(store).database
        if not runtime_role:
            return Migrated(steps)
        password = os.environ.get("CLEW_RUNTIME_PASSWORD") or ""
        role = maintenance.set_up_runtime_role(store, runtime_role, password=password)
        views.set_up_runtime_role(runtime_role)
    return Migrated(steps, role.name, role.is_new, bool(password))


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:
        raise Unavailable("cannot tell who you are; set CLEW_PRINCIPAL, for example to person:ada") from error
