"""Write which kinds of records and fields are known of each program: `python tools/known_shapes.py FOLDER ...`.

Adds what is in the sessions below the folders, which clew has to be able to read, to `known_shapes.json`. Run it after
readers were taught what `clew runtimes --drift` showed.
"""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import msgspec

from clew.runtimes import runtime
from clew.runtimes.shapes import INNER, known_shapes, shape_of
from clew.service.capture.client_database import open_client_database
from clew.service.capture.discovery import format_of, recognise_files

# Kinds that a reader reads and that are in none of the sessions: found in the programs themselves.
READ = {
    "claude-code": ["system/informational", "system/microcompact_boundary"],
    "gemini-cli": ["error", "subagent", "warning"],
    "pi": [
        "context_edit", "message/branchSummary", "message/compactionSummary", "message/custom", "usage",
    ],
    "qwen-code": [
        "system/at_command", "system/chat_compression", "system/custom_title", "system/slash_command",
    ],
}  # fmt: skip
PAGE = Path(__file__).parents[1] / "src/clew/runtimes/known_shapes.json"


def records(path: str, runtime_name: str, format_name: str) -> Iterator[bytes]:
    format = next(one for one in runtime(runtime_name).formats if one.name == format_name)
    if format.rows is not None:
        with open_client_database(path) as database:
            for identity, _ in format.rows.sessions(database.connection):
                yield from (record for _, record in format.rows.records(database.connection, identity.native))
    elif format.split is not None:
        yield from (record for _, record in format.split(Path(path).read_bytes()))
    elif not path.endswith(".zst"):
        yield from Path(path).read_bytes().splitlines()


def read_fields(name: str) -> set[str]:
    """The fields that a reader decodes, by the names that they have in a file."""
    found = set()
    for file in sorted((PAGE.parent / "adapters").glob(f"{name.replace('-', '_')}*.py")):
        module = import_module(f"clew.runtimes.adapters.{file.stem}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__module__ == module.__name__:
                found.update(value.__struct_encode_fields__)
    return found | {f"{outer}.{field}" for outer in INNER for field in found}


def main(folders: list[str]) -> None:
    kinds = {name: set(known.kinds) for name, known in known_shapes().items()}
    fields = {name: set(known.fields) for name, known in known_shapes().items()}
    for file in recognise_files(folders).session_files:
        program = runtime(file.runtime)
        if program.proven is None:
            continue
        for record in records(file.path, file.runtime, format_of(file).name):
            shape = shape_of(record)
            if shape is not None:
                kinds.setdefault(program.name, set()).add(shape.kind)
                fields.setdefault(program.name, set()).update(shape.fields)
    for name in kinds:
        kinds[name].update(READ.get(name, ()))
        inner = {field.partition(".")[0] for field in fields[name] if "." in field}
        fields[name].update(
            field for field in read_fields(name) if "." not in field or field.partition(".")[0] in inner
        )
    known = {name: {"kinds": sorted(kinds[name]), "fields": sorted(fields[name])} for name in sorted(kinds)}
    PAGE.write_bytes(msgspec.json.format(msgspec.json.encode(known), indent=1) + b"\n")
    print({name: (len(kinds[name]), len(fields[name])) for name in sorted(kinds)})


if __name__ == "__main__":
    main(sys.argv[1:])
