"""The operations of a witness: follow a log, countersign its checkpoints, and say which was the newest.

Every caller with a key of this server may submit a checkpoint: it is the signature of the log that is checked, and all
that a checkpoint can change here is that the same log has to continue it.
"""

from base64 import b64decode
from binascii import Error
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.checkpoint import public_key
from clew.model.errors import InvalidInput
from clew.service.audit.checkpoints import AUDIT
from clew.service.audit.witness import own_witness
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation


class Countersigned(msgspec.Struct, frozen=True, kw_only=True):
    """A log that this witness follows, and its newest countersigned checkpoint, which is empty before the first."""

    origin: str
    note: str
    witness: str
    """The public key of the witness."""


Hash = Annotated[str, msgspec.Meta(max_length=64)]


@operation(right=Right.ADMINISTER, route="PUT /audit/countersigned", audited=True, group=AUDIT, proves=True)
def audit_trust(
    context: Context, key: Annotated[str, msgspec.Meta(description="What `clew audit key` prints there.")]
) -> Countersigned:
    """Be a witness of another log: countersign the checkpoints that this public key of it signs."""
    trusted = public_key(key)
    witness = own_witness(context.home)
    own = witness.begin()
    witness.trust(trusted)
    return Countersigned(origin=trusted.name, note=witness.log(trusted.name).note, witness=str(own))


@operation(right=Right.SEE, route="POST /audit/countersigned", filters_by_reach=True, group=AUDIT, proves=True,
           repeatable=True)  # fmt: skip
def audit_countersign(
    context: Context,
    checkpoint: Annotated[str, msgspec.Meta(description="The signed note.")],
    *,
    old: Annotated[int, msgspec.Meta(ge=0, description="The leaves of the newest countersigned checkpoint.")] = 0,
    proof: Annotated[
        list[Hash], msgspec.Meta(max_length=63, description="That the checkpoint continues that one: hashes in base64.")
    ] = [],  # noqa: B006  # Never changed.
) -> Countersigned:
    """Countersign a checkpoint of another log, if it continues the newest one that was countersigned here."""
    witness = own_witness(context.home)
    note = witness.countersign(checkpoint, old=old, proof=[_decoded(hash) for hash in proof])
    return Countersigned(origin=note.partition("\n")[0], note=note, witness=str(witness.key()))


@operation(right=Right.SEE, route="GET /audit/countersigned", filters_by_reach=True, group=AUDIT, proves=True)
def audit_countersigned(
    context: Context, origin: Annotated[str, msgspec.Meta(description="The first line of the log's checkpoints.")]
) -> Countersigned:
    """Show the newest checkpoint of another log that was countersigned here."""
    witness = own_witness(context.home)
    return Countersigned(origin=origin, note=witness.log(origin).note, witness=str(witness.key()))


def _decoded(hash: str) -> bytes:
    try:
        return b64decode(hash, validate=True)
    except (Error, ValueError):
        raise InvalidInput("a hash of the proof is not base64") from None
