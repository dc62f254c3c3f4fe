"""What can be done about how sessions are kept: retention, settings, jobs, and the verification of the log."""

from collections.abc import Callable

from clew.server.web.action import About, Action, Field, Kind
from clew.server.web.page_request import PageRequest
from clew.service.access.settings import BUDGETS, DISK_LIMIT, WORKSPACE_QUOTA
from clew.service.jobs.jobs import JobInfo
from clew.service.jobs.kinds import load_kinds

LONGEST_NAME = 200
ALL = "Empty: all projects."


def _part(name: str, part: str) -> Callable[[PageRequest], About]:
    return lambda request: About(name, f"/settings?part={part}")


# Retention ------------------------------------------------------------------------------------------------------------


def _pruning(request: PageRequest) -> About:
    policies = request.call("retention_list")
    notes = tuple(str(policy) for policy in policies)
    return About("Retention", "/settings?part=retention", notes=notes, typed="prune")


RETENTION_SET = Action(
    "/settings/retention/set", "retention_set", "Set a policy",
    "Conversations of the project are pruned so many days after they were last said. Knowledge and usage stay.",
    "The policy is set", _part("Retention", "retention"),
    (
        Field("project", "Project", needed=True, longest=LONGEST_NAME),
        Field("agent", "Only of the agent", hint="Empty: all.", longest=LONGEST_NAME),
        Field("keep_days", "Keep for how many days", Kind.NUMBER, "Empty: for ever."),
        Field("hold", "Legal hold: nothing is pruned or erased", Kind.YES),
    ),
)  # fmt: skip
RETENTION_REMOVE = Action(
    "/settings/retention/remove", "retention_remove", "Remove the policy",
    "Removes the policy: from then on the conversations are kept for ever.", "The policy is removed",
    _part("Retention", "retention"),
    (
        Field("project", "Project", needed=True, longest=LONGEST_NAME),
        Field("agent", "Only of the agent", longest=LONGEST_NAME),
    ),
)  # fmt: skip
RETENTION_TRY = Action(
    "/settings/retention/try", "retention_apply", "What would go now?", "Says what would be pruned; prunes nothing.",
    "What would go now", _part("Retention", "retention"), fixed={"dry_run": True}, asks=False,
    shows="settings/pruned.html",
)  # fmt: skip
RETENTION_APPLY = Action(
    "/settings/retention/apply", "retention_apply", "Prune now",
    "Removes the conversations whose time is over, for good. A job does that by itself once a day.", "Pruned", _pruning,
    shows="settings/pruned.html", is_dangerous=True,
)  # fmt: skip

# Settings -------------------------------------------------------------------------------------------------------------

SECRETS = Action(
    "/settings/secrets", "setting_set", "Mask or keep secrets",
    "Whether what looks like a secret is masked before it is written. What was written before stays as it is; a native "
    "file that had a secret no longer comes back byte for byte.",
    "It is set", _part("Redaction", "redaction"),
    (
        Field("value", "Secrets that come in", Kind.CHOICE,
              choices=(("mask", "mask them before they are written"), ("keep", "keep them as they are"))),
        Field("project", "Project", hint=ALL, longest=LONGEST_NAME),
    ),
    fixed={"name": "secrets"},
)  # fmt: skip
READS = Action(
    "/settings/reads", "setting_set", "Record reads",
    "Whether the audit log also says who read what in the project. What changes something is recorded always.",
    "It is set", _part("Projects", "projects"),
    (
        Field("value", "Reads", Kind.CHOICE, choices=(("on", "record them"), ("off", "do not record them"))),
        Field("project", "Project", hint=ALL, longest=LONGEST_NAME),
    ),
    fixed={"name": "audit_reads"},
)  # fmt: skip
BUDGET = Action(
    "/settings/budget", "setting_set", "Set a budget",
    "Warns about what all sessions of a project, or of all, use in a day, a week or a month. It stops nothing.",
    "The budget is set", _part("Projects", "projects"),
    (
        Field("name", "Of each", Kind.CHOICE, choices=tuple((name, name.removeprefix("budget_")) for name in BUDGETS)),
        Field("value", "At most", hint="Such as $20, $7.50 or 5M tokens, or none.", needed=True, longest=40),
        Field("project", "Project", hint=ALL, longest=LONGEST_NAME),
    ),
)  # fmt: skip
DISK = Action(
    "/settings/disk", "setting_set", "Set a disk limit",
    "Where `clew doctor` and the page Health begin to warn. Nothing is removed because of it.", "The limit is set",
    _part("Projects", "projects"),
    (Field("value", "Limit", hint="Such as 500 MB or 20 GB, or none.", needed=True, longest=40),),
    fixed={"name": DISK_LIMIT},
)  # fmt: skip

# Snapshots ------------------------------------------------------------------------------------------------------------

KEEP_FILES = Action(
    "/settings/workspaces", "setting_set", "Keep files",
    "Whether the files of sessions are kept after each turn, as snapshots.", "It is set",
    _part("Snapshots", "snapshots"),
    (
        Field("value", "Files", Kind.CHOICE,
              choices=(("on", "keep them after each turn"), ("off", "only when asked"))),
        Field("project", "Project", hint=ALL, longest=LONGEST_NAME),
    ),
    fixed={"name": "workspaces"},
)  # fmt: skip
QUOTA = Action(
    "/settings/quota", "setting_set", "Set a quota",
    "How much the snapshots of a project may take on the disk. Near it clew warns; at it old ones are thinned more "
    "strictly, and then automatic ones stop.",
    "The quota is set", _part("Snapshots", "snapshots"),
    (
        Field("value", "At most", hint="Such as 500 MB or 20 GB, or none.", needed=True, longest=40),
        Field("project", "Project", hint=ALL, longest=LONGEST_NAME),
    ),
    fixed={"name": WORKSPACE_QUOTA},
)  # fmt: skip
THIN = Action(
    "/settings/thin", "workspace_thin", "Thin now",
    "Deletes old snapshots: all of a day are kept, then one an hour for a week, then one a day. The newest of each "
    "session stays, and so does one with a label, or one that a fork stands on. A job does that by itself once a day.",
    "Thinned", _part("Snapshots", "snapshots"),
    (Field("project", "Project", hint=ALL, longest=LONGEST_NAME),),
    shows="settings/thinned.html", is_dangerous=True,
)  # fmt: skip
COLLECT = Action(
    "/settings/collect", "workspace_gc", "Free space",
    "Deletes the objects that no session names any more, such as files of snapshots that were thinned or erased. What "
    "is newer than an hour stays.",
    "Freed", _part("Snapshots", "snapshots"), shows="settings/collected.html",
)  # fmt: skip

# Jobs -----------------------------------------------------------------------------------------------------------------


def _kinds(request: PageRequest) -> About:
    kinds = tuple((name, name.replace("_", " ")) for name in sorted(load_kinds()))
    return About("Jobs", "/settings?part=jobs", choices={"kind": kinds})


def is_waiting(job: JobInfo) -> bool:
    return job.state in ("waiting", "parked")


JOB_RUN = Action(
    "/settings/jobs/run", "jobs_run", "Run a job now",
    "The next worker that is free runs it. `clew up`, `clew serve` and `clew worker` have one.", "It is due now",
    _kinds,
    (
        Field("kind", "Job", Kind.CHOICE, needed=True),
        Field("project", "Project", hint="Empty: wherever there is something to do.", longest=LONGEST_NAME),
    ),
)  # fmt: skip
JOB_RETRY = Action(
    "/settings/jobs/{job}/retry", "jobs_retry", "Try again", "The job is due now, with all its attempts.",
    "It is due now", _part("Jobs", "jobs"), asks=False, is_possible=is_waiting,
)  # fmt: skip

# Verification ---------------------------------------------------------------------------------------------------------

VERIFY = Action(
    "/audit/verify", "audit_verify", "Verify the log",
    "Computes every digest chain and every checkpoint anew, and asks the witnesses. It changes nothing; a large log "
    "takes minutes.",
    "What was checked", lambda request: About("Audit", "/audit"), shows="audit/verified.html", icon="shield",
)  # fmt: skip
CHECKPOINT = Action(
    "/audit/checkpoint", "audit_checkpoint", "Make a checkpoint",
    "Signs the log as it is now. Keep the note elsewhere: it proves that nothing before it was changed.",
    "The checkpoint", lambda request: About("Audit", "/audit"), shows="audit/checkpoint.html",
)  # fmt: skip

RETENTION = (RETENTION_SET, RETENTION_TRY, RETENTION_APPLY)
EACH_POLICY = (RETENTION_REMOVE,)
PROJECTS = (BUDGET, READS, DISK)
REDACTION = (SECRETS,)
SNAPSHOTS = (KEEP_FILES, QUOTA, THIN, COLLECT)
JOBS = (JOB_RUN,)
EACH_JOB = (JOB_RETRY,)
AUDIT = (VERIFY, CHECKPOINT)
KEEPING = (*RETENTION, *EACH_POLICY, *PROJECTS, *REDACTION, *SNAPSHOTS, *JOBS, *EACH_JOB, *AUDIT)
