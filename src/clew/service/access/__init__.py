"""Who may do what: principals, grants, API keys, agents, settings, and who is authenticated."""
