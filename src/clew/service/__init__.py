"""The operations: everything a caller can ask for, one module per noun, behind one door."""

from clew.service.registry import OPERATIONS, Context, Operation, call

__all__ = ["OPERATIONS", "Context", "Operation", "call"]
