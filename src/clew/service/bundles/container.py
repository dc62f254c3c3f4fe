"""The container of a bundle: a tar file of plain files, packed with zstd. It can be opened with `tar --zstd -x`.

Only what a bundle has is read: plain files with a name that the reader knows, in the order in which they are. Nothing
is unpacked to a disk. The SHA-256 of each member is the last member; a bundle that was cut short does not have it.
"""

import tarfile
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, NamedTuple

import zstandard

from clew.model.errors import Damaged, TooLarge
from clew.model.steps import end_step
from clew.service.bundles.values import HEADER, SUMS

BLOCK = tarfile.BLOCKSIZE
PIECE_BYTES = 1024 * 1024
LEVEL = 3
LARGEST_MEMBER = 16 * 1024**3
# No memory is given to a bundle that claims to need more.
WINDOW_BYTES = 128 * 1024 * 1024
# Real sessions shrink to a tenth. What grows to so many times its size, beyond this, was made to fill a disk.
MOST_TIMES, FREE_BYTES = 2_000, 4 * 1024**3
# A tar file ends with empty blocks, up to a record of them.
PADDING_BYTES = 64 * 1024


class Member(NamedTuple):
    """A file of a bundle: its name, its size, and its bytes in pieces."""

    name: str
    size: int
    pieces: Iterable[bytes]


# Writing --------------------------------------------------------------------------------------------------------------


def packed(members: Iterable[Member], *, made_at: int) -> Iterator[bytes]:
    """The bytes of a bundle with these members; the sums of all of them are added."""
    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compressobj()
    for piece in _tar(members, made_at // 1_000_000):
        end_step()
        if data := compressor.compress(piece):
            yield data
    yield compressor.flush()


def _tar(members: Iterable[Member], at: int) -> Iterator[bytes]:
    with SpooledTemporaryFile(PIECE_BYTES) as sums:
        for member in members:
            summed = sha256()
            yield _header(member.name, member.size, at)
            size = 0
            for piece in member.pieces:
                summed.update(piece)
                size += len(piece)
                yield piece
            if size != member.size:
                raise Damaged(f"{member.name} has {size:,} bytes and should have {member.size:,}; no bundle was made")
            yield _padding(size)
            sums.write(_line(summed.hexdigest(), member.name))
        size = sums.tell()
        sums.seek(0)
        yield _header(SUMS, size, at)
        while piece := sums.read(PIECE_BYTES):
            yield piece
        yield _padding(size) + bytes(2 * BLOCK)


def _header(name: str, size: int, at: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o600, max(0, at)
    # This form has sizes beyond 8 GiB; every tar reads it.
    return info.tobuf(tarfile.GNU_FORMAT)


def _padding(size: int) -> bytes:
    return bytes(-size % BLOCK)


def _line(digest: str, name: str) -> bytes:
    return f"{digest}  {name}\n".encode()


# Reading --------------------------------------------------------------------------------------------------------------


def is_bundle(path: str) -> bool:
    """Whether a file begins like a bundle."""
    with open(path, "rb") as file:
        try:
            beginning = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES).stream_reader(file).read(BLOCK)
        except zstandard.ZstdError:
            return False
    return beginning.startswith(HEADER.encode())


class Content:
    """The bytes of a member that is being read. They are read once; what is left of them is read over."""

    def __init__(self, name: str, size: int, read: Callable[[int], bytes]) -> None:
        self.name = name
        self.size = size
        self._left = size
        self._read = read
        self.sum = sha256()

    def pieces(self) -> Iterator[bytes]:
        while self._left:
            end_step()
            piece = self._read(min(PIECE_BYTES, self._left))
            if not piece:
                raise Damaged(f"the bundle ends in the middle of {self.name}: the rest of it is missing")
            self._left -= len(piece)
            self.sum.update(piece)
            yield piece

    def whole(self, most: int) -> bytes:
        if self.size > most:
            raise TooLarge(f"{self.name} in the bundle has {self.size:,} bytes, and at most {most:,} are read of it")
        return b"".join(self.pieces())

    def skip(self) -> None:
        for _ in self.pieces():
            pass


def members_of(file: BinaryIO) -> Iterator[Content]:
    """The members of a bundle but the last, in order; `Damaged` for one that is cut short, altered, or no bundle."""
    reader = _Unpacking(file)
    sums = sha256()
    before: Content | None = None
    while True:
        content = reader.next()
        if before is not None:
            sums.update(_line(before.sum.hexdigest(), before.name))
        if content.name == SUMS:
            content.skip()
            if content.sum.digest() != sums.digest():
                raise Damaged(
                    f"{SUMS} does not fit what is in the bundle: a file of it was changed, removed or added; unpack it "
                    f"and run `sha256sum -c {SUMS}` to see which"
                )
            reader.finish()
            return
        yield content
        content.skip()
        before = content


class _Unpacking:
    """The tar file inside of the packed bytes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        unpacker = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES)
        self._stream = unpacker.stream_reader(file, read_across_frames=True, closefd=False)
        self._total = 0
        self._last: Content | None = None

    def next(self) -> Content:
        """The next member. The one before was read to its end."""
        self._pad()
        block = self._exactly(BLOCK)
        if len(block) < BLOCK or not any(block):
            where = f"after {self._last.name}" if self._last else "at its beginning"
            raise Damaged(f"the bundle ends {where}, without {SUMS}: it is no bundle, or the rest of it is missing")
        try:
            info = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        except (tarfile.HeaderError, UnicodeDecodeError, ValueError) as error:
            raise Damaged(f"the bundle cannot be read at byte {self._total:,}: {error}") from error
        name = info.name[:200]
        if info.type != tarfile.REGTYPE:
            raise Damaged(f"{name!r} in the bundle is no plain file; a bundle has nothing else")
        if not 0 <= info.size <= LARGEST_MEMBER:
            raise TooLarge(
                f"{name!r} in the bundle claims to have {info.size:,} bytes; the limit is {LARGEST_MEMBER:,}"
            )
        self._last = Content(info.name, info.size, self._read)
        return self._last

    def finish(self) -> None:
        """Only empty blocks come after the last member."""
        self._pad()
        rest = self._exactly(PADDING_BYTES + 1)
        if len(rest) > PADDING_BYTES or any(rest) or len(rest) < 2 * BLOCK:
            raise Damaged(f"the bundle does not end after {SUMS}: something was cut off or added")

    def _pad(self) -> None:
        if self._last is not None and any(self._exactly(-self._last.size % BLOCK)):
            raise Damaged(f"there are bytes between the files of the bundle, after {self._last.name}")

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size and (piece := self._read(size - len(data))):
            data += piece
        return data

    def _read(self, size: int) -> bytes:
        try:
            piece = self._stream.read(size)
        except zstandard.ZstdError as error:
            raise Damaged(f"the bundle cannot be unpacked after {self._total:,} bytes: {error}") from error
        self._total += len(piece)
        if self._total > FREE_BYTES and self._total > MOST_TIMES * max(1, self._file.tell()):
            raise TooLarge(
                f"the bundle unpacks to more than {MOST_TIMES:,} times its size, {self._total:,} bytes so far; it was "
                "made to fill a disk"
            )
        return bytes(piece)
