"""Images of sessions, from this server alone: only types that hold pixels and nothing else, by what their bytes say.

What an event says of an image is not believed. An SVG is a document that can hold scripts, so it is never shown.
"""

MOST_BYTES = 20 * 1024 * 1024
RASTERS = frozenset({"image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp"})
# A browser that opens an image by itself runs nothing and fetches nothing.
HEADERS = {
    "content-security-policy": "default-src 'none'; sandbox",
    "content-disposition": "inline",
    # The right to read it is checked each time; the bytes are sent once.
    "cache-control": "private, no-cache",
}


def raster_type(data: bytes) -> str:
    """The type of an image by its first bytes; empty for anything that is not shown."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return ""
