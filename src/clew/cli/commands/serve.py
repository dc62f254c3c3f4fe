"""`clew serve`."""

from clew.cli import serving

command = serving.serve
