"""Sync in the background: push the shared projects to a team's servers."""
