"""The export forms of a session, for people and for other programs."""
