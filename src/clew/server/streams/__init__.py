"""Live streams: Server-Sent Events, and what wakes them."""
