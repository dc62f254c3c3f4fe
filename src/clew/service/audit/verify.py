"""The operation `verify`: recompute the digest chains of sessions."""

from clew.model.access import Right
from clew.model.session import Session
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.store.log import verify as chains
from clew.store.log.feed import end_position
from clew.store.log.problems import Verified


@operation(
    right=Right.AUDIT, route="GET /chains", finds_damage=lambda reports: any(report.problems for report in reports)
)
def verify(context: Context, session: Session | None = None) -> list[Verified]:
    """Recompute the digest chain of one session, or of all, and report what does not hold."""
    if session is not None:
        return [chains.verify(context.store, session)]
    reports = []
    done, total = 0, end_position(context.store) if context.on_progress else 0
    for report in chains.verify_all(context.store):
        reports.append(report)
        done += report.events
        if context.on_progress:
            context.on_progress(done, total)
    return reports
