"""Machines that share with a server: each with a home, a log and a key of its own."""

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from clew import app
from clew.client import Plane
from clew.model import codec
from clew.model.events import Event, Removed
from clew.remote import Remote
from clew.service import Context
from clew.service.replication import remotes
from clew.service.replication.pull import Pulled
from clew.service.replication.push import Push, Pushed
from clew.service.replication.remotes import Setting
from clew.store import Store
from clew.store.log.receiving import source_of, store_id
from clew.store.log.verify import verify_all

PROJECT = "shop"


class Machine:
    """One machine of one person."""

    def __init__(self, home: Path, *, url: str = "", key: str = "", project: str = PROJECT) -> None:
        self.home = home
        self.plane: Plane = app.connect(f"sqlite:///{home / 'clew.db'}", home=home, principal="person:me")
        if url:
            remotes.save_key(home, "team", key)
            remotes.save(home, Setting(name="team", url=url, projects=[project] if project else []))

    @property
    def context(self) -> Context:
        return self.plane.client.context

    @property
    def store(self) -> Store:
        return self.context.store

    @property
    def setting(self) -> Setting:
        return remotes.named(self.home)

    def remote(self) -> Remote:
        setting = self.setting
        return app.open_server(setting.url, remotes.key_of(self.home, setting.name), patience=1.0)

    def push(self, *ids: str, again: bool = False) -> Pushed:
        remote = self.remote()
        try:
            push = Push(self.context, self.home, self.setting, remote)
            return push.only(list(ids)) if ids else push.run(again=again)
        finally:
            remote.close()

    def ask(self, id: str) -> None:
        """Share one session, whatever else is."""
        with remotes.changing(self.home, "team") as setting:
            setting.sessions = [*setting.sessions, id]

    def pull(self, id: str) -> Pulled:
        pulled: Pulled = self.plane.client.call("pull", session=id)
        return pulled

    def open(self, *texts: str, project: str = PROJECT, **more: Any) -> str:
        """A session in which these things were said."""
        id = str(self.plane.client.call("open", project=project, **more).id)
        self.say(id, *texts)
        return id

    def say(self, id: str, *texts: str, role: str = "user") -> None:
        drafts = [{"kind": "message_added", "role": role, "text": text} for text in texts]
        self.plane.client.call("append", session=id, drafts=drafts)

    def show(self, id: str, *blobs: str) -> None:
        """A message with images."""
        parts = [{"type": "image", "blob": blob, "media_type": "image/png"} for blob in blobs]
        draft = {"kind": "message_added", "role": "user", "parts": parts}
        self.plane.client.call("append", session=id, drafts=[draft])

    def told(self, id: str) -> list[Any]:
        return told(self.store, id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.plane.close()


def told(store: Store, id: str) -> list[Any]:
    """What the log says of a session, as every store knows it: without times, actors and what each makes itself."""
    own = store_id(store)
    return [
        (event.kind, source_of(event, own), said(event))
        for event in store.read(store.session(id))
        if event.kind not in ("session_opened", "session_forked")
    ]


def said(event: Event) -> Any:
    return None if isinstance(event.body, Removed) else json.loads(codec.encode(event.body))


def texts(store: Store, id: str) -> list[str]:
    """The messages of a session, in their order."""
    return [event.body.text for event in store.read(store.session(id)) if event.kind == "message_added"]  # type: ignore[union-attr]


def sound(*stores: Store) -> None:
    """Every chain of every log holds."""
    for store in stores:
        for one in verify_all(store):
            assert one.ok, one.problems


def images(count: int) -> list[bytes]:
    """Bytes that are no text."""
    return [b"\x89PNG\r\n\x1a\n\0\0\0" + bytes(range(256)) * (number + 1) for number in range(count)]
