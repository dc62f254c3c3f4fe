"""The operations: everything a caller can ask for, one module per noun, behind one door."""

from clew.service.kernel.call import call
from clew.service.kernel.context import Context
from clew.service.kernel.registry import OPERATIONS, Operation

__all__ = ["OPERATIONS", "Context", "Operation", "call"]
