"""What a power loss can leave of the files of a process, from the calls it made to the system.

`calls` reads a trace of strace. `Disk` replays it and, at any moment, leaves an image of what could be on the disk:

* A write is durable once an fsync or fdatasync of the file, begun after the write was done, has succeeded.
* A name is durable once its folder was synced: a new file, a rename, a removal. Syncing the file is not enough.
* Of everything that is not durable any part may be there: nothing, any choice of the writes, any sectors of them.
* A failed sync makes nothing durable. For the bytes of a file no later one makes up for it: Linux takes them for clean.

The disk is taken to honour fsync and to write a sector of 512 bytes whole. Files that end in -shm are left out: SQLite
makes them anew.
"""

import random
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

SECTOR = 512
# All that changes files or their names. Those that the model does not know are traced to be refused.
KNOWN = "openat close write pwrite64 lseek fsync fdatasync ftruncate unlink rename mkdir mmap".split()
UNKNOWN = """open creat dup dup2 dup3 writev pwritev pwritev2 sync_file_range truncate fallocate unlinkat renameat
    renameat2 mkdirat rmdir link linkat symlink symlinkat copy_file_range sendfile""".split()


def strace(trace: Path, *, inject: str = "") -> list[str]:
    """The command line that traces what follows it; `inject` makes calls fail, in the words of strace."""
    options = ["-f", "--seccomp-bpf", "-qq", "-xx", "-s", "100000000", "-e", "signal=none", "-o", str(trace)]
    if inject:
        options.append(f"--inject={inject}")
    return ["strace", *options, "-e", f"trace={','.join(KNOWN + UNKNOWN)}"]


def why_not_strace() -> str:
    """Why nothing can be traced here; empty if it can."""
    try:
        done = subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], capture_output=True, text=True)
    except FileNotFoundError:
        return "strace is not installed: apt-get install strace"
    return f"strace may not trace here: {done.stderr.strip()}" if done.returncode else ""


@dataclass(frozen=True, slots=True)
class Call:
    """The begin or the end of a call, with the line of the trace where it began and this one."""

    when: Literal["begin", "end"]
    began: int
    line: int
    name: str
    arguments: Sequence[bytes | str]
    result: int = 0


def calls(trace: Path) -> list[Call]:
    """The traced calls in the order in which they began and ended."""
    found: list[Call] = []
    begun: dict[bytes, Call] = {}
    with trace.open("rb") as lines:
        for number, line in enumerate(lines):
            thread, _, text = line.rstrip(b"\n").partition(b" ")
            text = text.lstrip()
            if text.endswith(b"<unfinished ...>"):
                name, _, rest = text.removesuffix(b"<unfinished ...>").partition(b"(")
                begun[thread] = Call("begin", number, number, name.decode(), _arguments(rest.rstrip(b", ")))
                found.append(begun[thread])
                continue
            rest, _, result = text.rpartition(b"= ")
            if not rest or result.startswith(b"?"):
                continue  # The end of a thread, or a call that never returned.
            rest = rest.rstrip().removesuffix(b")")
            if rest.startswith(b"<... "):
                begin = begun.pop(thread)
                rest = rest.partition(b" resumed>")[2].lstrip(b", ")
            else:
                name, _, rest = rest.partition(b"(")
                begin = Call("begin", number, number, name.decode(), ())
            arguments = [*begin.arguments, *_arguments(rest)]
            if begin.line == number:
                found.append(Call("begin", number, number, begin.name, arguments))
            found.append(Call("end", begin.line, number, begin.name, arguments, int(result.split()[0], 0)))
    return found


def _arguments(text: bytes) -> list[bytes | str]:
    parts: list[bytes | str] = []
    for part in text.split(b", ") if text else []:
        if not part.startswith(b'"'):
            parts.append(part.decode())
            continue
        assert part.endswith(b'"'), "strace cut a string short"
        parts.append(bytes.fromhex(part[1:-1].replace(b"\\x", b"").decode()))
    return parts


@dataclass(slots=True)
class File:
    """The bytes that are durable, and the writes since: an offset and bytes, or a length to cut to."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, int, bytes | None]] = field(default_factory=list)

    def content(self, choice: "Choice") -> bytearray:
        content = bytearray(self.durable)
        for _, offset, data in self.pending:
            for start, part in choice.parts(offset, data):
                _write(content, start, part)
        return content

    def synced(self, before: int) -> None:
        """Make what was written before a moment durable."""
        for moment, offset, data in self.pending:
            if moment < before:
                _write(self.durable, offset, data)
        self.pending = [write for write in self.pending if write[0] >= before]

    def not_synced(self, before: int, choice: "Choice") -> None:
        """Decide at once what becomes of it, because no later sync will."""
        for moment, offset, data in self.pending:
            if moment < before:
                for start, part in choice.parts(offset, data):
                    _write(self.durable, start, part)
        self.pending = [write for write in self.pending if write[0] >= before]


@dataclass(slots=True)
class Folder:
    """The names that are durable, those there are now, and the changes in between: each sets or removes names."""

    durable: "dict[str, File | Folder]" = field(default_factory=dict)
    now: "dict[str, File | Folder]" = field(default_factory=dict)
    pending: "list[tuple[int, dict[str, File | Folder | None]]]" = field(default_factory=list)

    def change(self, moment: int, names: "dict[str, File | Folder | None]") -> None:
        _rename(self.now, names)
        self.pending.append((moment, names))

    def names(self, choice: "Choice") -> "dict[str, File | Folder]":
        names = dict(self.durable)
        for _, change in self.pending:
            if choice.takes():
                _rename(names, change)
        return names

    def synced(self, before: int) -> None:
        for moment, change in self.pending:
            if moment < before:
                _rename(self.durable, change)
        self.pending = [change for change in self.pending if change[0] >= before]


def _rename(names: "dict[str, File | Folder]", change: "dict[str, File | Folder | None]") -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def _write(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    if data is not None:
        content[offset : offset + len(data)] = data


class Choice:
    """What of the unsynced is there: nothing, some of the writes, or some sectors of them."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._kind = chance.choice(["none", "some", "torn"])
        self._share = chance.choice([0.1, 0.5, 0.9, 1.0])

    def takes(self) -> bool:
        return self._kind != "none" and self._chance.random() < self._share

    def parts(self, offset: int, data: bytes | None) -> Iterator[tuple[int, bytes | None]]:
        """The parts of a write that reached the disk."""
        if data is None or self._kind != "torn":
            if self.takes():
                yield offset, data
            return
        start = 0
        while start < len(data):
            end = min(len(data), start + SECTOR - (offset + start) % SECTOR)
            if self.takes():
                yield offset + start, data[start:end]
            start = end


class Disk:
    """The files below a folder while a traced process works on them."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self._root = root
        self._chance = chance
        self._top = Folder()
        self._open: dict[int, File | Folder] = {}
        self._names: dict[int, str] = {}
        self._offsets: dict[int, int] = {}
        self.said: list[str] = []
        self.syncs: Counter[str] = Counter()

    def leave(self, folder: Path) -> None:
        """Write an image of what a power loss now could leave into an empty folder."""
        self._leave(self._top, folder, Choice(self._chance))

    def _leave(self, node: Folder, folder: Path, choice: Choice) -> None:
        for name, child in node.names(choice).items():
            if isinstance(child, Folder):
                (folder / name).mkdir()
                self._leave(child, folder / name, choice)
            elif not name.endswith("-shm"):
                (folder / name).write_bytes(child.content(choice))

    def apply(self, call: Call) -> None:
        """Do what the call did. Whatever changes files in a way that is not known here is refused."""
        if call.name in UNKNOWN:
            self._refuse(call)
        elif call.name == "write" and call.when == "begin" and call.arguments[0] == "1":
            text = call.arguments[1]
            assert isinstance(text, bytes)
            self.said += text.decode().splitlines()
        elif call.name in ("fsync", "fdatasync"):
            self._sync(call)
        elif call.when == "end" and call.result >= 0:
            getattr(self, f"_{call.name}")(call, *call.arguments)

    def _refuse(self, call: Call) -> None:
        descriptors = {argument for argument in call.arguments[:1] if isinstance(argument, str) and argument.isdigit()}
        paths = [argument for argument in call.arguments if isinstance(argument, bytes) and self._inside(argument)]
        if paths or any(int(descriptor) in self._open for descriptor in descriptors):
            raise AssertionError(f"{call.name} is not part of the model of a power loss")

    def _inside(self, path: bytes) -> bool:
        return Path(path.decode()).is_relative_to(self._root)

    def _find(self, path: bytes) -> tuple[Folder, str]:
        """The folder of a path, and its last name."""
        *parents, name = Path(path.decode()).relative_to(self._root).parts
        folder = self._top
        for parent in parents:
            child = folder.now[parent]
            assert isinstance(child, Folder)
            folder = child
        return folder, name

    def _openat(self, call: Call, _at: str, path: bytes, flags: str, _mode: str = "") -> None:
        if not self._inside(path):
            return
        if Path(path.decode()) == self._root:
            self._open[call.result] = self._top
            return
        folder, name = self._find(path)
        if name not in folder.now:
            folder.change(call.line, {name: File()})
        node = folder.now[name]
        assert "O_APPEND" not in flags
        if "O_TRUNC" in flags and isinstance(node, File):
            node.pending.append((call.line, 0, None))
        self._open[call.result] = node
        self._names[call.result] = name
        self._offsets[call.result] = 0

    def _close(self, _call: Call, descriptor: str) -> None:
        self._open.pop(int(descriptor), None)

    def _lseek(self, call: Call, descriptor: str, *_: str) -> None:
        self._offsets[int(descriptor)] = call.result

    def _write(self, call: Call, descriptor: str, data: bytes, _size: str) -> None:
        offset = self._offsets.get(int(descriptor), 0)
        self._pwrite64(call, descriptor, data, "", str(offset))
        self._offsets[int(descriptor)] = offset + call.result

    def _pwrite64(self, call: Call, descriptor: str, data: bytes, _size: str, offset: str) -> None:
        if isinstance(node := self._open.get(int(descriptor)), File):
            node.pending.append((call.line, int(offset), data[: call.result]))

    def _ftruncate(self, call: Call, descriptor: str, length: str) -> None:
        if isinstance(node := self._open.get(int(descriptor)), File):
            node.pending.append((call.line, int(length), None))

    def _sync(self, call: Call) -> None:
        node = self._open.get(int(str(call.arguments[0])))
        if node is None or call.when == "begin":
            return
        if call.result == 0:
            self.syncs[self._names.get(int(str(call.arguments[0])), "")] += 1
            node.synced(call.began)
        elif isinstance(node, File):
            node.not_synced(call.began, Choice(self._chance))

    def _unlink(self, call: Call, path: bytes) -> None:
        if self._inside(path):
            folder, name = self._find(path)
            folder.change(call.line, {name: None})

    def _rename(self, call: Call, old: bytes, new: bytes) -> None:
        if self._inside(old):
            folder, name = self._find(old)
            target, new_name = self._find(new)
            assert folder is target, "a rename between folders is not part of the model of a power loss"
            folder.change(call.line, {name: None, new_name: folder.now[name]})

    def _mkdir(self, call: Call, path: bytes, _mode: str) -> None:
        if self._inside(path):
            folder, name = self._find(path)
            folder.change(call.line, {name: Folder()})

    def _mmap(self, _call: Call, _at: str, _size: str, access: str, flags: str, descriptor: str, _offset: str) -> None:
        if "MAP_SHARED" in flags and "PROT_WRITE" in access and int(descriptor) in self._open:
            name = self._names[int(descriptor)]
            assert name.endswith("-shm"), f"{name} is written through memory, which is not part of the model"


def replay(traced: Sequence[Call], root: Path, moments: Iterable[int], chance: random.Random) -> Iterator[Disk]:
    """The disk at each of these moments: after so many begins and ends of calls."""
    disk = Disk(root, chance)
    done = 0
    for moment in sorted(moments):
        for call in traced[done:moment]:
            disk.apply(call)
        done = moment
        yield disk


def moments(traced: Sequence[Call], root: Path, count: int, chance: random.Random) -> list[int]:
    """Random moments from when the process first touches the folder on."""
    mark = str(root).encode()
    first = next(
        index
        for index, call in enumerate(traced)
        for part in call.arguments
        if isinstance(part, bytes) and mark in part
    )
    return [chance.randint(first, len(traced)) for _ in range(count)]
