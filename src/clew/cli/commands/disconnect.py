"""`clew disconnect`."""

from clew.cli.connecting import settings_command

command = settings_command(
    "disconnect", "Disconnect an agent program: remove exactly what `clew connect` added to its settings."
)
