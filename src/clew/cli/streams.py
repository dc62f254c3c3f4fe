"""Commands written by hand: streams in and out, questions to a person, and what must work when the store does not."""

import os
import sys
from collections.abc import Iterator
from typing import Any

import click

from clew import app, client
from clew.cli.options import complete_id, json_option
from clew.cli.output import print_json
from clew.model import codec
from clew.model.errors import BudgetExceeded, InvalidInput, NotFound
from clew.model.events import Draft, Event

CHUNK = 256 * 1024


class Plane:
    """The store of this run, opened when first needed."""

    def __init__(self, settings: app.Settings) -> None:
        self.settings = settings
        self._plane: client.Plane | None = None

    @property
    def client(self) -> client.Client:
        if self._plane is None:
            self._plane = app.connect(self.settings.store, home=self.settings.home, principal=self.settings.principal)
        return self._plane.client

    def call(self, name: str, /, **arguments: Any) -> Any:
        return self.client.call(name, **arguments)

    def close(self) -> None:
        if self._plane is not None:
            self._plane.close()


def commands() -> list[click.Command]:
    """All of them."""
    session = click.argument("session", metavar="ID", shell_complete=complete_id)

    @click.command()
    @session
    @click.option("--expect", type=int, help="The head you have seen; refused if it has moved on.")
    @click.option("--lease", type=int, metavar="EPOCH", help="The epoch of the lease you hold.")
    @json_option
    @click.pass_obj
    def append(plane: Plane, session: str, expect: int | None, lease: int | None, as_json: bool) -> None:
        """Append drafts, one JSON object per line of standard input.

        Prints {"seq": N} for each line once it is durable. Example:

            echo '{"kind": "message_added", "role": "user", "text": "hi"}' | clew append ID
        """
        if sys.stdin.isatty():
            click.echo("reading drafts, one JSON object per line; end with Ctrl-D", err=True)
        for batch, refused in drafts(sys.stdin.fileno()):
            if batch:
                expect = _append(plane, session, batch, expect, lease)
            if refused is not None:
                raise refused

    @click.command()
    @click.argument("session", metavar="[ID]", required=False, shell_complete=complete_id)
    @click.option("-f", "--follow", is_flag=True, help="Wait for more.")
    @click.option("-n", "--lines", default=10, show_default=True, help="How many of the last events to begin with.")
    @click.option("--after", type=int, help="Begin after this position (or this seq, with an ID) instead.")
    @click.option("--project", default="", help="Only this project.")
    @json_option
    @click.pass_obj
    def tail(
        plane: Plane, session: str | None, follow: bool, lines: int, after: int | None, project: str, as_json: bool
    ) -> None:
        """Print the last events of one session or of all, and follow what comes."""
        newest = plane.client.last_position()
        if after is None:
            top = plane.call("show", session=session).session.head if session else newest
            after = max(0, top - lines)
        try:
            for found in pages(plane, session, after, project=project, follow=follow):
                if as_json:
                    print_json(found)
                else:
                    from clew.cli.render import tailed

                    tailed(found)
        except KeyboardInterrupt:
            return

    @click.command()
    @session
    @click.option("--full", is_flag=True, help="Fold nothing.")
    @click.option("--thinking", is_flag=True, help="Show what models thought, too.")
    @click.option("--at", type=int, metavar="SEQ", help="Only the place around this event.")
    @click.option("--last", type=click.IntRange(min=0), metavar="N", help="Only the last N turns; 0 for none.")
    @click.option("--no-pager", is_flag=True, help="Print straight to the terminal.")
    @click.option("--events", is_flag=True, help="Print the events themselves, one per line.")
    @click.option("--after", type=int, metavar="SEQ", help="With --events: only those after this one.")
    @click.option("--upto", type=int, metavar="SEQ", help="With --events: only those up to this one.")
    @json_option
    @click.pass_obj
    def show(
        plane: Plane, session: str, full: bool, thinking: bool, at: int | None, last: int | None, no_pager: bool,
        events: bool, after: int | None, upto: int | None, as_json: bool,
    ) -> None:  # fmt: skip
        """Show a session: where it stands, its conversation, what it knows and its working set.

        What tools gave back is folded, and what was taken back is left out; --events has all that ever happened.
        """
        if events:
            found = plane.call("events", session=session, after=after or 0, upto=upto)
            _print_events(found, as_json=as_json)
            return
        if after is not None or upto is not None:
            raise InvalidInput("--after and --upto belong to --events; --at SEQ shows the place around an event")
        if at is not None and last is not None:
            raise InvalidInput("--at and --last are two ways to show a part; use one of them")
        try:
            if as_json:
                print_json(plane.call("show", session=session))
                return
            from clew.cli import showing

            wanted = showing.Wanted(full=full, thinking=thinking, at=at, last=last)
            showing.show(plane, session, wanted, paged=not no_pager)
        except NotFound as error:
            from clew.cli.remotes import hinted

            raise hinted(plane, session, error) from None

    @click.command()
    @session
    @click.option("--with-forks", is_flag=True, help="Erase the sessions that fork from it, too.")
    @click.option("--reason", default="", help="Kept in the record of the erasure.")
    @click.option("-y", "--yes", is_flag=True, help="Do not ask.")
    @json_option
    @click.pass_obj
    def erase(plane: Plane, session: str, with_forks: bool, reason: str, yes: bool, as_json: bool) -> None:
        """Erase a session's content for good; the record that it existed and was erased stays."""
        found = plane.call("show", session=session).session
        if not yes:
            if not sys.stdin.isatty():
                raise InvalidInput(f"erasing {found.id} cannot be undone; repeat the command with --yes")
            click.confirm(f"Erase {found.id} ({found.head} events) for good?", abort=True, err=True)
        result = plane.call("erase", session=found.id, with_forks=with_forks, reason=reason)
        if as_json:
            print_json(result)
        else:
            from clew.cli.render import erased

            erased(result)

    @click.command()
    @json_option
    @click.pass_obj
    def doctor(plane: Plane, as_json: bool) -> None:
        """Check versions, permissions, free disk, integrity, every digest chain and captures in the background."""
        from clew import doctor as examination
        from clew.cli import background

        found = [*examination.diagnose(plane.settings), *background.findings(plane.settings.home)]
        if as_json:
            print_json(found)
        else:
            from clew.cli.render import findings

            findings(found)
        if not all(one.ok for one in found):
            raise click.exceptions.Exit(1)

    @click.command()
    @json_option
    @click.pass_obj
    def migrate(plane: Plane, as_json: bool) -> None:
        """Bring the store to the schema of this clew."""
        done = app.migrate(plane.settings)
        if as_json:
            print_json({"steps": done})
        else:
            click.echo(f"migrated: {', '.join(done)}" if done else "the schema is up to date")

    @click.command()
    @click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
    def completion(shell: str) -> None:
        """Print the completion script of a shell, for example: eval "$(clew completion bash)"."""
        from click.shell_completion import get_completion_class

        root = click.get_current_context().find_root().command
        kind = get_completion_class(shell)
        if kind is None:
            raise InvalidInput(f"no completion for {shell}")
        click.echo(kind(root, {}, "clew", "_CLEW_COMPLETE").source())

    return [append, tail, show, erase, doctor, migrate, completion]


def _print_events(found: list[Event], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        from clew.cli.render import RENDER

        RENDER["events"](found)


def drafts(descriptor: int) -> Iterator[tuple[list[Draft], InvalidInput | None]]:
    """Drafts as they arrive: all whole lines at hand make one batch, up to the first that is refused."""
    rest = b""
    number = 0
    while chunk := os.read(descriptor, CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        batch, refused = _parsed(lines, number)
        yield batch, refused
        number += len(lines)
    if rest.strip():
        yield _parsed([rest], number)


def _parsed(lines: list[bytes], number: int) -> tuple[list[Draft], InvalidInput | None]:
    batch: list[Draft] = []
    for offset, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            batch.append(codec.draft(line))
        except InvalidInput as error:
            return batch, InvalidInput(f"line {number + offset}: {error}", line=number + offset)
    return batch, None


def _append(plane: Plane, session: str, batch: list[Draft], expect: int | None, lease: int | None) -> int | None:
    """Append a batch and acknowledge each line; returns the head to expect next, if one was expected."""
    try:
        appended = plane.call("append", session=session, drafts=batch, expect=expect, lease=lease)
    except BudgetExceeded as error:
        _acknowledge(error.details["seqs"], [])
        raise
    _acknowledge(appended.seqs, appended.deduplicated)
    return appended.head if expect is not None else None


def _acknowledge(seqs: list[int], repeated: list[int]) -> None:
    print_json([{"seq": seq, "deduplicated": True} if seq in repeated else {"seq": seq} for seq in seqs])


def pages(plane: Plane, session: str | None, after: int, *, project: str, follow: bool) -> Iterator[list[Event]]:
    """Events page by page; with `follow`, for ever."""
    while True:
        found: list[Event] = (
            plane.call("events", session=session, after=after, limit=1000)
            if session
            else plane.call("tail", after=after, project=project)
        )
        if found:
            yield found
            after = found[-1].seq if session else found[-1].position
        elif not follow:
            return
        else:
            for event in plane.client.follow(after=after, session=session or "", project=project):
                yield [event]
