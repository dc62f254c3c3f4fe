"""A worker that keeps views fresh and whose jobs append to the log: `worker.py URL LEASE_MS`."""

import os
import sys

from clew.consumers.jobs import Jobs
from clew.consumers.runner import Runner
from clew.consumers.views import FreshViews
from clew.model.access import owner_of_everything
from clew.model.events import Draft, MessageAdded
from clew.service import Context
from clew.service.jobs.kinds import JobKind, Result, Task
from clew.store import open_store

ADA = "person:ada"
PARTS = ("begun", "half done", "done")


def tally(context: Context, task: Task) -> Result:
    """Append three events, one after the other: each is stored once, because its source is the job's."""
    session = context.store.sessions(project=task.project, limit=1)[0].session
    for part in PARTS:
        body = MessageAdded(role="user", text=f"{task.id} {part}")
        context.store.append(session, [Draft(body=body, source=f"{task.id} {part}")], actor=ADA)
        task.renew()
    return {"parts": len(PARTS)}


KINDS = {
    "tally": JobKind(
        name="tally", help="tally", every_seconds=10**9, run=tally, wanted=lambda context: {}, is_per_project=True
    )
}


def main(url: str, lease_ms: int) -> None:
    with open_store(url) as store:
        context = Context(store=store, unrestricted=store, principal=ADA, grants=(owner_of_everything(ADA),))
        jobs = Jobs(context, complain, kinds=KINDS, lease_us=lease_ms * 1000)
        os.write(1, b"ready\n")
        Runner(store, [FreshViews(context), jobs], complain).run()


def complain(text: str) -> None:
    os.write(2, f"{text}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
