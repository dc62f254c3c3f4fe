"""`clew audit ...`."""

from clew.cli.audit import audit_group

command = audit_group()
