"""Operations that look across sessions: search, files, usage."""
