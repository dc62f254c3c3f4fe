"""The HTTP server: operations as routes, live streams, pages. Async lives here; an operation runs in a thread."""
