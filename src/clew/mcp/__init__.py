"""The MCP server: an agent finds, reads and writes sessions, and remembers across them.

Each tool is one operation, called through `clew.service.call` like any other surface's. State travels as arguments, so
one builder serves both transports and both revisions of the protocol. Only `server.py` and `stdio.py` know the SDK,
whose import takes a second: nothing else may load it.
"""
