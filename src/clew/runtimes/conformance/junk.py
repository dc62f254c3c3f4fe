"""Wrong values: some programs write them in place of the right ones."""

from typing import Any

# Single values.
ODD: tuple[Any, ...] = (
    None, True, -1, 1e308, 10**30, "", "x\0", "~", "x" * 2000, ["x"], [None], {}, {"type": "text"},
    [{"type": "text", "text": None}],
)  # fmt: skip
# Whole records and files.
JUNK = (
    b"", b"\n\n", b"null", b"0", b'"x"', b"[]", b"[1]", b"{}", b"{", b"\xff\xfe\x00", b"\0" * 64, b'{"type":{}}',
    b'{"k\xff":1}', b"[" * 5000, b'{"a":' * 5000, b"[" * 5000 + b"]" * 5000, b'{"a":' * 5000 + b"1" + b"}" * 5000,
    b'{"a":"\\ud800"}',
)  # fmt: skip
