"""Stored text as markup: Markdown, code, the colours of a terminal. All of it is hostile."""
