"""Stored text is hostile: characters that control a terminal or the direction of text are written out as escapes."""

_HOSTILE = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}
_HOSTILE |= {
    code: f"\\u{code:04x}"
    for code in (0x061C, 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF)
}


def plain(text: str) -> str:
    """The text with control characters and marks of direction written out; line feeds and tabs keep their meaning."""
    return text.translate(_HOSTILE)
