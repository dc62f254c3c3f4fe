"""Bytes without their secrets: UTF-8, UTF-16, or a binary file, in which nothing can be replaced."""

import codecs
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from clew.secrets.stream import mask_text

if TYPE_CHECKING:
    from clew.secrets.masking import Masker

SIGN_WITHIN = 1024
# In UTF-16 so many of the bytes of mostly Latin text are zero, all of them at even or all at odd offsets.
_LEAST_ZEROS, _MOST_OTHERS = 0.4, 0.05


def is_binary(beginning: bytes) -> bool:
    """Whether bytes that begin so are not text: a database, an image."""
    return b"\0" in beginning[:SIGN_WITHIN] and not wide_codec(beginning)


def wide_codec(beginning: bytes) -> str:
    """The codec of a text in UTF-16; empty if the bytes are none."""
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16-le" if beginning.startswith(codecs.BOM_UTF16_LE) else "utf-16-be"
    sample = beginning[:SIGN_WITHIN]
    pairs = len(sample) // 2
    even, odd = (sample[first : 2 * pairs : 2].count(0) for first in (0, 1))
    if odd > _LEAST_ZEROS * pairs and even <= _MOST_OTHERS * pairs:
        return "utf-16-le"
    return "utf-16-be" if even > _LEAST_ZEROS * pairs and odd <= _MOST_OTHERS * pairs else ""


def without_secrets(mask: "Masker", data: bytes) -> tuple[bytes, Counter[str]]:
    """The bytes without their secrets; a note in place of a binary file that holds some."""
    counts = Counter[str]()
    masked = b"".join(masked_pieces(mask, [data], counts))
    if counts and is_binary(data):
        return f"[a file that stays where it is: it holds {', '.join(sorted(counts))}]\n".encode(), counts
    return masked if counts else data, counts


def masked_pieces(mask: "Masker", pieces: Iterable[bytes], counts: Counter[str]) -> Iterator[bytes]:
    """A file without its secrets, piece by piece; a binary one stays as it is, and `counts` says what it holds."""
    pieces = iter(pieces)
    beginning = next(pieces, b"")
    whole = chain([beginning], pieces)
    if codec := wide_codec(beginning):
        yield from _recoded(mask_text(mask, _recoded(whole, codec, "utf-8"), counts), "utf-8", codec)
    elif is_binary(beginning):
        for piece in whole:
            # Programs write texts of two bytes a character into binary files, too.
            counts.update(mask.mask(piece)[1] or mask.mask(piece.replace(b"\0", b""))[1])
            yield piece
    else:
        yield from mask_text(mask, whole, counts)


def _recoded(pieces: Iterable[bytes], was: str, codec: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(was)("surrogatepass")
    for piece in pieces:
        yield decoder.decode(piece).encode(codec, "surrogatepass")
    try:
        yield decoder.decode(b"", final=True).encode(codec, "surrogatepass")
    except UnicodeDecodeError:
        return  # Half of a character at the end says nothing.
