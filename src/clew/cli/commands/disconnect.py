"""`clew disconnect`."""

from clew.cli.connecting import settings_command

command = settings_command("disconnect", "Disconnect an agent program: take out exactly what connecting put in.")
