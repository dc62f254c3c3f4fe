"""Every error a caller can meet, with a stable code. Surfaces map the code, never the class.

    ClewError
      InvalidInput          invalid_input     the arguments are not valid
        TooLarge            too_large         a body beyond the limit
      NotFound              not_found         no such session, event or blob
        AmbiguousId         ambiguous_id      a shortened id fits several sessions
      Unauthenticated       unauthenticated   no API key, or one that is not valid
      Denied                denied            the ruling was no
      TooManyRequests       too_many_requests too many requests; retry later
      Conflict              conflict          the log is not where the caller thinks it is
        StaleHead           stale_head        `expect` is not the head
        SourceReused        source_reused     the same source with another body
        WrongState          wrong_state       the lifecycle does not allow it
        LeaseHeld           lease_held        another holder may write until a time
        LeaseLost           lease_lost        the caller's lease expired or was taken over
        BudgetExceeded      budget_exceeded   stored, then paused
        OnHold              on_hold           a legal hold forbids removal
        HasForks            has_forks         other sessions read this one's events
      StoreError            store             the database below
        Unavailable         unavailable       cannot be reached (an outcome may be unknown)
        Busy                busy              another process holds the write lock too long
        DiskFull            disk_full         no room; nothing was written
        Damaged             damaged           bytes that are not what was written
        SchemaNewer         schema_newer      made by a newer clew: refused
        SchemaOutdated      schema_outdated   made by an older clew: migrate first

A message says what was found, what was expected and what to do.
"""

from typing import Any, ClassVar


class ClewError(Exception):
    """The root. `details` carries what a program needs to react, under stable names."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details = details

    def to_dict(self) -> dict[str, Any]:
        return {"error": self.code, "message": str(self), **self.details}


class InvalidInput(ClewError):
    code = "invalid_input"


class TooLarge(InvalidInput):
    code = "too_large"


class NotFound(ClewError):
    code = "not_found"


class AmbiguousId(NotFound):
    code = "ambiguous_id"


class Unauthenticated(ClewError):
    code = "unauthenticated"


class Denied(ClewError):
    code = "denied"


class TooManyRequests(ClewError):
    code = "too_many_requests"


class Conflict(ClewError):
    code = "conflict"


class StaleHead(Conflict):
    code = "stale_head"


class SourceReused(Conflict):
    code = "source_reused"


class WrongState(Conflict):
    code = "wrong_state"


class LeaseHeld(Conflict):
    code = "lease_held"


class LeaseLost(Conflict):
    code = "lease_lost"


class BudgetExceeded(Conflict):
    code = "budget_exceeded"


class OnHold(Conflict):
    code = "on_hold"


class HasForks(Conflict):
    code = "has_forks"


class Lossy(Conflict):
    code = "lossy"


class StoreError(ClewError):
    code = "store"


class Unavailable(StoreError):
    code = "unavailable"


class Busy(StoreError):
    code = "busy"


class DiskFull(StoreError):
    code = "disk_full"


class Damaged(StoreError):
    code = "damaged"


class SchemaNewer(StoreError):
    code = "schema_newer"


class SchemaOutdated(StoreError):
    code = "schema_outdated"
