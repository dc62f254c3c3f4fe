"""`clew watch`."""

from clew.cli import serving

command = serving.watch
