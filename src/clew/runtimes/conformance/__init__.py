"""Checks of the contract that the author of an adapter can run: `check(RUNTIME, {path: bytes})`.

A sample is a small session file as the program writes it, with its path below the runtime's home; a database is the
bytes of its file. Each format needs one sample. A check that fails raises an AssertionError that names the rule, the
place and the value that broke it. Nothing here does I/O.
"""

from clew.model.events import Opaque
from clew.runtimes.conformance.claims import claim
from clew.runtimes.conformance.declaration import check_recognition, check_shape
from clew.runtimes.conformance.hostile import check_hostile
from clew.runtimes.conformance.reading import check_reading
from clew.runtimes.conformance.writing import check_rewriting, check_writing
from clew.runtimes.contract import Runtime


def check(runtime: Runtime, samples: dict[str, bytes]) -> None:
    """Check an adapter against the whole contract."""
    check_shape(runtime)
    formats = check_recognition(runtime, samples)
    understood = not any(format.patterns for format in runtime.formats)
    for path, data in samples.items():
        drafts = check_reading(runtime, formats[path], path, data)
        understood = understood or not all(isinstance(draft.body, Opaque) for draft in drafts)
        check_rewriting(runtime, drafts, path)
    claim(understood, "nothing in the samples was understood; are they sessions?")
    check_hostile(runtime, samples)
    if runtime.writer is not None:
        check_writing(runtime)
