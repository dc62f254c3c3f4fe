"""`clew remote ...`."""

from clew.cli.remotes import remote_group

command = remote_group()
