"""Principals, teams, grants, API keys, agents and project settings: plain tables, not part of the log."""
