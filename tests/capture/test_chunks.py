"""Files of lines in chunks: nothing is lost between two of them, whatever their size."""

import io
import random

import pytest

from clew.service.capture import chunked_lines
from clew.service.capture.changed_files import split_into_portions
from clew.service.capture.chunked_lines import hash_ends, read_chunk
from clew.service.capture.discovery import SessionFile
from clew.store.native_files.native_file import END_BYTES


def read_all(data: bytes) -> list[bytes]:
    file, chunks, start = io.BytesIO(data), [], 0
    while True:
        chunk = read_chunk(file, start, len(data))
        assert chunk.data or chunk.is_last, "the next chunk would begin here, too"
        chunks.append(chunk.data)
        start += len(chunk.data)
        if chunk.is_last:
            return chunks


@pytest.mark.parametrize("size", [1, 7, 50, 10_000])
def test_the_chunks_of_a_file_are_the_file_and_end_with_a_line(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(chunked_lines, "CHUNK_BYTES", size)
    chance = random.Random(size)
    for _ in range(50):
        data = b"".join(
            b"x" * chance.randrange(40) + b"\n" for _ in range(chance.randrange(30))
        ) + b"torn" * chance.randrange(2)
        chunks = read_all(data)
        assert b"".join(chunks) == data
        assert all(chunk.endswith(b"\n") for chunk in chunks[:-1])


def test_a_chunk_is_longer_only_where_a_line_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked_lines, "CHUNK_BYTES", 10)
    assert read_all(b"123\n456\n" + b"x" * 25 + b"\n1\n") == [b"123\n456\n", b"x" * 25 + b"\n1\n"]


def test_a_line_that_the_log_does_not_take_ends_its_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked_lines, "CHUNK_BYTES", 10)
    monkeypatch.setattr(chunked_lines, "LARGEST_BYTES", 15)
    chunks = read_all(b"x" * 100 + b"\n")
    assert len(chunks) > 1
    assert b"".join(chunks) == b"x" * 100 + b"\n"


def test_what_was_appended_after_a_file_was_opened_is_left_for_the_next_capture() -> None:
    chunk = read_chunk(io.BytesIO(b"one\ntwo\n"), 0, 4)
    assert (chunk.data, chunk.is_last) == (b"one\n", True)


@pytest.mark.parametrize("length", [0, 10, END_BYTES, END_BYTES + 1, 3 * END_BYTES])
def test_the_ends_hash_alike_from_the_file_and_from_memory(length: int) -> None:
    data = random.Random(length).randbytes(length)
    file = io.BytesIO(data + b"more")
    hashes = {
        hash_ends(file, length, data[-kept:] if kept else b"") for kept in (0, 10, END_BYTES, 2 * END_BYTES, length)
    }
    assert len(hashes) == 1
    if length:
        changed = bytes([data[0] ^ 1]) + data[1:]
        assert hash_ends(io.BytesIO(changed), length) not in hashes


def test_portions_are_limited_by_their_bytes_and_by_their_number() -> None:
    def files(*sizes: int) -> list[SessionFile]:
        return [
            SessionFile(runtime="r", format="f", path=str(i), size=size, fingerprint="") for i, size in enumerate(sizes)
        ]

    def sizes(portions: list[list[SessionFile]]) -> list[list[int]]:
        return [[file.size for file in portion] for portion in portions]

    assert sizes(list(split_into_portions(files(6, 5, 20, 1), most_bytes=10))) == [[6, 5], [20], [1]]
    assert sizes(list(split_into_portions(files(1, 1, 1), most_files=2))) == [[1, 1], [1]]
    assert list(split_into_portions([])) == []
