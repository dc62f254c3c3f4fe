"""The operations that list and export the audit log: who called which operation, on what, with which ruling."""

import enum
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.errors import InvalidInput
from clew.service.audit import bundle, entries, entry_forms
from clew.service.audit.checkpoints import AUDIT
from clew.service.audit.entries import Entries, EntryFilter
from clew.service.find.filters import Project, Since, Until, principal, times
from clew.service.kernel.call import permit
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation


class Verdict(enum.StrEnum):
    ALLOWED = "allowed"
    REFUSED = "refused"


class Form(enum.StrEnum):
    BUNDLE = "bundle"
    JSONL = "jsonl"
    CSV = "csv"
    OTEL = "otel"


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an exported file. `next` is the cursor of the next part; all parts in order are the file."""

    text: str
    next: str


@operation(right=Right.AUDIT, route="GET /audit/log", group=AUDIT)
def audit_log(
    context: Context,
    *,
    project: Project = "",
    principal: Annotated[str, msgspec.Meta(description="Only what this one asked for: ada, or agent:fred.")] = "",
    operation: Annotated[str, msgspec.Meta(description="Only this operation.")] = "",
    ruling: Annotated[Verdict, msgspec.Meta(description="Only with this ruling.")] | None = None,
    since: Since = "",
    until: Until = "",
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000, description="How many at the most.")] = 50,
    after: Annotated[str, msgspec.Meta(description="Go on from the `next` of the page before.")] = "",
) -> Entries:
    """List what was asked for, newest first: who, what, on what, the ruling and why."""
    filter = _filter(project, principal, operation, ruling, since, until)
    return entries.page(context.store, filter, before=entries.start(after), limit=limit)


@operation(right=Right.AUDIT, route="GET /audit/export", audited=True, group=AUDIT, proves=True)
def audit_export(
    context: Context,
    *,
    form: Annotated[
        Form, msgspec.Meta(description="A bundle to verify elsewhere, or the entries alone.")
    ] = Form.BUNDLE,
    with_content: Annotated[bool, msgspec.Meta(description="Bodies in the bundle, not only their hashes.")] = False,
    project: Project = "",
    principal: Annotated[str, msgspec.Meta(description="Only what this one asked for.")] = "",
    operation: Annotated[str, msgspec.Meta(description="Only this operation.")] = "",
    ruling: Annotated[Verdict, msgspec.Meta(description="Only with this ruling.")] | None = None,
    since: Since = "",
    until: Until = "",
    after: Annotated[str, msgspec.Meta(description="Go on from the `next` of the portion before.")] = "",
) -> Exported:
    """Export the log for an audit elsewhere, a portion at a time: all of it to verify, or the entries alone."""
    if form is Form.BUNDLE:
        if project or principal or operation or ruling or since or until:
            raise InvalidInput("a bundle has the whole log and takes no filters; jsonl, csv and otel do")
        if with_content:
            permit(context, Right.READ, "")
        if with_content and context.answers_leave_machine:
            raise InvalidInput(
                "a bundle with content can only be made on the store's own machine: elsewhere secrets are masked, and "
                "a masked body no longer matches its hash"
            )
        text, following = bundle.portion(context.store, after, content=with_content)
        return Exported(text=text, next=following)
    if with_content:
        raise InvalidInput("only a bundle can have content; the entries of the audit log have none")
    filter = _filter(project, principal, operation, ruling, since, until)
    page = entries.page(context.store, filter, before=entries.start(after), limit=1000)
    match form:
        case Form.JSONL:
            text = entry_forms.as_jsonl(page.entries)
        case Form.CSV:
            text = entry_forms.as_csv(page.entries, titles=not after)
        case Form.OTEL:
            text = entry_forms.as_otel(page.entries)
    return Exported(text=text, next=page.next)


def _filter(project: str, caller: str, operation: str, ruling: Verdict | None, since: str, until: str) -> EntryFilter:
    return EntryFilter(
        project=project, principal=principal(caller) if caller else "", operation=operation,
        allowed=None if ruling is None else ruling is Verdict.ALLOWED, period=times("", since, until),
    )  # fmt: skip
