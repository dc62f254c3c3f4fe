"""`clew service`: have the system start `clew up` whenever its person logs in. Only files in the person's folders."""

import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from clew.cli.confirming import confirm, yes_option
from clew.cli.help import Summaries
from clew.cli.options import json_option
from clew.cli.output import print_json
from clew.model.errors import InvalidInput

UNIT = "clew.service"
LABEL = "dev.clew.up"
SECONDS = 30


@click.group("service", cls=Summaries)
def command() -> None:
    """Start clew whenever you log in, as a service of yours."""


@command.command()
@yes_option
@json_option
@click.pass_obj
def install(plane: Any, yes: bool, as_json: bool) -> None:
    """Install the service and start it; it belongs to you and needs no root."""
    path, text = _file(plane.settings)
    confirm(f"This writes {path} and has the system start `clew up` now and at every login", yes=yes, as_json=as_json)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    _done(path, _run_all(_starting(path)), "clew starts whenever you log in", as_json=as_json)


@command.command()
@json_option
@click.pass_obj
def status(plane: Any, as_json: bool) -> None:
    """Say whether the service is installed, and whether clew runs."""
    from clew.cli import running

    path, text = _file(plane.settings)
    server = running.running_server(plane.settings.home)
    about = {
        "installed": path.exists(), "current": path.exists() and path.read_bytes() == text, "file": str(path),
        "running": server is not None, "url": server.url if server else "",
    }  # fmt: skip
    if as_json:
        print_json(about)
        return
    installed = f"installed in {path}" if about["installed"] else "not installed; `clew service install` installs it"
    click.echo(f"the service is {installed}")
    if about["installed"] and not about["current"]:
        click.echo("it was written for another clew or another store; install it again", err=True)
    click.echo(f"clew runs at {server.url}" if server else "clew does not run")


@command.command()
@yes_option
@json_option
@click.pass_obj
def remove(plane: Any, yes: bool, as_json: bool) -> None:
    """Stop the service and remove its file; sessions stay."""
    path, _ = _file(plane.settings)
    if not path.exists():
        click.echo("the service is not installed", err=True)
        return
    confirm(f"This stops the service and removes {path}", yes=yes, as_json=as_json)
    problem = _run_all(_ending(path))
    path.unlink(missing_ok=True)
    _done(path, problem, "the service is removed", as_json=as_json)


def _done(path: Path, problem: str, text: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"file": str(path), "problem": problem})
        return
    click.echo(text if not problem else f"{path}: {text} from the next login on ({problem})")


def _file(settings: Any) -> tuple[Path, bytes]:
    """Where the service's file is, and what it says."""
    words = [sys.executable, "-P", "-m", "clew", "--home", str(settings.home), "up", "--no-browser"]
    if not settings.store.startswith("sqlite:///"):
        raise InvalidInput("a service would keep the address of the store in a file; it is for the embedded store only")
    if sys.platform == "darwin":
        about = {"Label": LABEL, "ProgramArguments": words, "RunAtLoad": True, "KeepAlive": {"SuccessfulExit": False}}
        return Path.home() / "Library/LaunchAgents" / f"{LABEL}.plist", plistlib.dumps(about)
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd/user"
    quoted = " ".join('"' + word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"' for word in words)
    unit = (
        "[Unit]\nDescription=clew: the sessions of AI agents\n\n"
        f"[Service]\nExecStart={quoted}\nRestart=on-failure\n\n[Install]\nWantedBy=default.target\n"
    )
    return folder / UNIT, unit.encode()


def _starting(path: Path) -> list[list[str]]:
    if sys.platform == "darwin":
        return [["launchctl", "load", "-w", str(path)]]
    return [["systemctl", "--user", "daemon-reload"], ["systemctl", "--user", "enable", "--now", UNIT]]


def _ending(path: Path) -> list[list[str]]:
    if sys.platform == "darwin":
        return [["launchctl", "unload", "-w", str(path)]]
    return [["systemctl", "--user", "disable", "--now", UNIT], ["systemctl", "--user", "daemon-reload"]]


def _run_all(commands: Sequence[Sequence[str]]) -> str:
    """Run the commands of the system's service manager; returns why one failed."""
    for words in commands:
        if shutil.which(words[0]) is None:
            return f"{words[0]} is not here"
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()
            return said[-1] if said else f"{words[0]} ended with {done.returncode}"
    return ""
