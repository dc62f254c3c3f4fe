"""The operation `capture_step`: one portion of what is new on this machine, for a page that shows how far it is."""

from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.service.capture.capture import capture
from clew.service.capture.changed_files import capture_find, split_into_portions
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation

FILES = 25
BYTES = 8 * 1024 * 1024


class CaptureStep(msgspec.Struct, frozen=True, kw_only=True):
    """How many files a step captured and how many it could not, the last path of it, and how many are left."""

    captured: int
    failed: int
    last: str
    left: int


@operation(right=Right.APPEND, hidden=True)
def capture_step(
    context: Context, *, after: Annotated[str, msgspec.Meta(description="The last path of the step before.")] = ""
) -> CaptureStep:
    """Capture the next portion of the files that are new or have grown, in the order of their paths."""
    changed = sorted(capture_find(context).changed, key=lambda file: file.path)
    files = [file for file in changed if file.path > after]
    portion = next(split_into_portions(files, most_bytes=BYTES, most_files=FILES), [])
    if not portion:
        return CaptureStep(captured=0, failed=0, last=after, left=0)
    failed = sum(report.status == "failed" for report in capture(context, files=portion))
    return CaptureStep(
        captured=len(portion) - failed, failed=failed, last=portion[-1].path, left=len(files) - len(portion)
    )
