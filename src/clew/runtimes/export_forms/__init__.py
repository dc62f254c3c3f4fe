"""A session as a document for people or other programs."""
