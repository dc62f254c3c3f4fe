"""`clew connect`."""

from clew.cli.connecting import settings_command

command = settings_command(
    "connect", "Connect an agent program to clew: show the change to its settings, then make it."
)
