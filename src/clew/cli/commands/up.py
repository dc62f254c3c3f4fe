"""`clew up`."""

from clew.cli import serving

command = serving.up
