"""The operations: everything a caller can ask for. Every call goes through `kernel/call.py`."""

from clew.service.kernel.call import call
from clew.service.kernel.context import Context
from clew.service.kernel.registry import OPERATIONS, Operation

__all__ = ["OPERATIONS", "Context", "Operation", "call"]
