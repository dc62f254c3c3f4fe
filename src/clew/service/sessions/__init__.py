"""Operations on sessions: their lifecycle, events, forks and leases."""
