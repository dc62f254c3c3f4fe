"""What bodies are made of: the parts of a message, usage, budgets and touched files. events.py offers them, too."""

import msgspec

from clew.model.object_names import ObjectName


class TextPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="text"):
    text: str


class ThinkingPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="thinking"):
    """An llm's reasoning. `signature` is valid only for the provider that made it."""

    text: str
    signature: str = ""


class ImagePart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="image"):
    blob: ObjectName
    media_type: str = ""
    name: str = ""


class FilePart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="file"):
    blob: ObjectName
    media_type: str = ""
    name: str = ""


Part = TextPart | ThinkingPart | ImagePart | FilePart


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens as the llm's provider counts them, and what they cost in millionths of a US dollar.

    Reasoning is a part of the output, and `cache_write_hour`, what is kept for an hour, a part of `cache_write`. An
    answer that was given `fast` has a price of its own.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_hour: int = 0
    reasoning: int = 0
    cost_micros: int = 0
    fast: bool = False

    @property
    def tokens(self) -> int:
        """The tokens that a budget counts: everything newly processed, without cache reads."""
        return self.input + self.output + self.cache_write


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How much a session may use; None is no limit."""

    tokens: int | None = None
    cost_micros: int | None = None


class Touch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing a call touched: a file, an app or a data source, read or written."""

    what: str
    how: str = "read"
    type: str = "file"


class Workspace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Where files are and how many: the folder and its machine, what was left out and listed, and where git stood.

    `began_at` is when clew began to read the files: what changed after that may be missing in the snapshot.
    """

    folder: str = ""
    machine: str = ""
    files: int = 0
    bytes: int = 0
    skipped: int = 0
    commit: str = ""
    branch: str = ""
    began_at: int = 0


class FileChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A file that changed since the snapshot before: its digests, and when its filesystem says that it changed.

    A digest is empty where there was no file, and `changed_at` is 0 for a removed one.
    """

    path: str
    before: str = ""
    after: str = ""
    changed_at: int = 0
