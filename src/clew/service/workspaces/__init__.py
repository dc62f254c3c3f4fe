"""Workspaces: the files that a session works on, kept with it."""
