"""The results of operations, as pages get them: read back from their text with secrets masked, and nothing else."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from clew import doctor
from clew.model.access import Right
from clew.model.errors import TooLarge
from clew.model.steps import end_step
from clew.server.http.answer_text import AnswerText, NeedsNoMasking, masked, unmasked
from clew.service.kernel.call import call, permit, prepare_call, record_done, run_in_pieces
from clew.service.kernel.context import Context
from clew.service.kernel.registry import Operation, operation_named
from clew.service.kernel.results import result_from, to_json

# A result that is made in pieces is held in memory by a page; HTTP and the command line send it as it is made.
MOST_BYTES = 128 * 1024 * 1024


def read(context: Context, is_own: bool, name: str, /, **arguments: Any) -> Any:
    """The result of an operation that only reads: nothing changes because somebody follows a link."""
    operation = operation_named(name)
    is_local = is_own and not operation.route and operation.right in (Right.SEE, Right.READ)
    if not operation.route.startswith("GET ") and not is_local:
        raise AssertionError(f"a page reads; {name} belongs in an action")
    return result(context, name, arguments)


def result(context: Context, name: str, arguments: Mapping[str, Any]) -> Any:
    """The result of an operation."""
    operation = operation_named(name)
    return result_from(operation.result, _text(context, operation, arguments))


def findings(context: Context) -> list[doctor.Finding]:
    """What is well with the store and what is not; it says things about all of it, so it is for owners."""
    permit(context, Right.ADMINISTER, "")
    findings = doctor.examine(context.unrestricted, Path(context.home))
    return msgspec.json.decode(masked(context, msgspec.json.encode(findings)), type=list[doctor.Finding])


def _text(context: Context, operation: Operation, arguments: Mapping[str, Any]) -> AnswerText:
    if operation.in_pieces is not None:
        prepared = prepare_call(context, operation.name, arguments)
        # The operation masks its pieces; the bytes of a file are no text in which secrets could be found.
        text = unmasked(_joined(run_in_pieces(prepared), operation.command), NeedsNoMasking.MASKED_BEFORE)
        record_done(prepared)
        return text
    told = to_json(call(context, operation.name, arguments))
    is_shown = operation.shows_secret or operation.proves
    return unmasked(told, NeedsNoMasking.DECLARED) if is_shown else masked(context, told)


def _joined(pieces: Iterable[bytes], command: str) -> bytes:
    """The pieces of a result in one text, as long as a page can hold it; the rest of a longer one is never made."""
    text = bytearray()
    for piece in pieces:
        end_step()
        text += piece
        if len(text) > MOST_BYTES:
            raise TooLarge(
                f"this is more than a page can give at once ({MOST_BYTES >> 20} MiB); use the command clew {command}, "
                "which holds little of it in memory"
            )
    return bytes(text)
