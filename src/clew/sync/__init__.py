"""Sync: what this machine's log tells a team's server, and what it brings back from there."""
