"""Checks of what an adapter declares: names, formats, patterns, and how it recognises a file."""

import re
from pathlib import PurePath, PurePosixPath

import msgspec

from clew.runtimes.conformance.claims import claim, escaped, guarded, shown
from clew.runtimes.conformance.junk import JUNK
from clew.runtimes.contract import COMMON_TOOLS, Format, Identity, Runtime, Tool
from clew.runtimes.records import SHAPE_ERRORS

SQLITE = b"SQLite format 3\0"
HEAD_BYTES = 64 * 1024


def check_shape(runtime: Runtime) -> None:
    """The declaration is complete and consistent."""
    claim(isinstance(runtime, Runtime), f"RUNTIME is a {type(runtime).__name__}, not a Runtime")
    claim(re.fullmatch("[a-z][a-z0-9-]*", runtime.name), f"the name {runtime.name!r} is not lower-case words with -")
    claim(runtime.title, "the title is empty; it is what people read")
    claim(is_below(runtime.home or "x"), f"the home {runtime.home!r} has to be relative to a person's home")
    claim(runtime.formats, "there is no format: what does the program write?")
    names = [format.name for format in runtime.formats]
    claim(len({*names}) == len(names), f"two formats have one name: {names}")
    for format in runtime.formats:
        where = f"format {format.name!r}"
        claim(format.split is None or format.rows is None, f"{where} is a document or a database, not both")
        for pattern in format.patterns:
            claim(is_below(pattern), f"{where}: the pattern {pattern!r} leaves the home")
        check_state(format.state(), format, "a fresh one")
    for common, tool in runtime.tools.items():
        claim(common in COMMON_TOOLS, f"{common!r} is not a valid common tool; these are: {', '.join(COMMON_TOOLS)}")
        claim(isinstance(tool, Tool), f"tools[{common!r}] is not a Tool with a name")
        odd = tool.arguments.keys() - {*COMMON_TOOLS[common]}
        claim(not odd, f"tools[{common!r}] maps {sorted(odd)}, but its arguments are {COMMON_TOOLS[common]}")
    for edit in runtime.connection.edits if runtime.connection else ():
        claim(is_below(edit.path), f"the settings file {edit.path!r} leaves the home")
        added = edit.add(None, ["clew-hook"], ["clew", "mcp"])
        claim(edit.add(added, ["clew-hook"], ["clew", "mcp"]) == added, f"{edit.path}: connecting twice changes more")
        claim(edit.remove(added) is None, f"{edit.path}: disconnecting leaves something behind")


def check_recognition(runtime: Runtime, samples: dict[str, bytes]) -> dict[str, Format]:
    """One format recognises each sample and always gives the same identity; junk raises nothing."""
    formats: dict[str, Format] = {}
    for path, data in samples.items():
        claim(is_below(path), f"the sample's path {path!r} has to be relative to the runtime's home")
        formats[path] = format_of(runtime, path, data)
        identity = identify(formats[path], path, data)
        claim(identity.native, f"{path}: identify gives no native id")
        claim(identity == identify(formats[path], path, data), f"{path}: identify gives another identity each time")
        if formats[path].split is None and formats[path].rows is None:
            grown = data + b'{"one":"more"}\n'
            claim(identify(formats[path], path, grown) == identity, f"{path}: the identity changes when the file grows")
    missing = [declared.name for declared in runtime.formats if declared not in formats.values()]
    claim(not missing, f"there is no sample for the formats {missing} of {runtime.name}")
    for format in runtime.formats:
        for path in ("x.jsonl", "x.json", "x", *samples):
            for junk in (*JUNK, *(data[:cut] for data in samples.values() for cut in (1, 40, 400))):
                check_glance(format, path, junk)
    return formats


def check_glance(format: Format, path: str, data: bytes) -> None:
    """`recognises` and `identify` accept any bytes."""
    where = f"format {format.name!r}: recognises({path!r}, {shown(data)})"
    with guarded(where):
        answer: object = format.recognises(PurePath(path), data)
    claim(isinstance(answer, bool), f"{where} gives {answer!r}, not a bool")
    try:
        identity = format.identify(PurePath(path), data)
    except SHAPE_ERRORS:
        return
    except Exception as error:  # noqa: BLE001  # the engine does not expect it
        escaped(f"format {format.name!r}: identify({path!r}, {shown(data)})", error)
    claim(isinstance(identity, Identity), f"format {format.name!r}: identify gives {identity!r}, not an Identity")
    words = (identity.native, identity.project, identity.agent, identity.parent, identity.call, identity.fork_of)
    claim(all(isinstance(word, str) for word in words), f"format {format.name!r}: {identity} is not all text")


def format_of(runtime: Runtime, path: str, data: bytes) -> Format:
    """The format that recognises a file."""
    for format in runtime.formats:
        if data.startswith(SQLITE) != (format.rows is not None):
            continue
        with guarded(f"recognises({path!r})"):
            if format.recognises(PurePath(path), data[:HEAD_BYTES]):
                return format
    raise AssertionError(f"no format of {runtime.name} recognises {path!r}, which begins with {shown(data)}")


def identify(format: Format, path: str, data: bytes) -> Identity:
    """The identity of a file; `identify` gets the first line of a file of lines, else the whole file."""
    first = data if format.split or format.rows else next((line for line in data.split(b"\n") if line.strip()), b"")
    try:
        return format.identify(PurePath(path), first)
    except SHAPE_ERRORS:
        return Identity(native="")


def check_state(state: msgspec.Struct, format: Format, where: str) -> None:
    try:
        text = msgspec.json.encode(state)
        back = msgspec.json.decode(text, type=format.state)
    except Exception as error:  # Any exception means that the state cannot be stored.
        raise AssertionError(f"the state of format {format.name!r} after {where} cannot be kept: {error!r}") from error
    claim(back == state, f"the state of format {format.name!r} after {where} comes back as {back}, not as {state}")


def is_below(path: str) -> bool:
    """Whether a relative path stays below its folder."""
    return not path.startswith("/") and "\0" not in path and ".." not in PurePosixPath(path).parts and path != ""


def matches(pattern: str, path: str) -> bool:
    """Whether glob would match the path."""
    words = (re.escape(word).replace(r"\*", "[^/]*").replace(r"\?", "[^/]") for word in pattern.split("**/"))
    return re.fullmatch("(?:.*/)?".join(words), path) is not None
