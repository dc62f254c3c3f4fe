"""What every body has, and bodies without a kind of their own: those this program does not know, and removed ones."""

from typing import ClassVar

import msgspec


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    # Frozen JSON values form no cycles, so the garbage collector skips them (gc=False).
    kind: ClassVar[str]
    version: ClassVar[int] = 1
    step: ClassVar[str] = "work"
    durable: ClassVar[bool] = False
    reserved: ClassVar[bool] = False


class Opaque(msgspec.Struct, frozen=True, kw_only=True):
    """A body this program does not know, kept verbatim: a foreign kind, or a newer version of ours."""

    kind: str
    raw: str
    version: int = 1
    step: ClassVar[str] = "work"
    durable: ClassVar[bool] = False
    reserved: ClassVar[bool] = False


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """The placeholder of a body that was pruned or erased."""

    kind: str
    how: str
    version: int = 1
