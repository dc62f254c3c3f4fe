"""From error codes to exit codes: the one table, printed in docs/cli.md."""

EXITS = {
    "invalid_input": 2,
    "too_large": 2,
    "not_found": 3,
    "ambiguous_id": 3,
    "conflict": 4,
    "stale_head": 4,
    "source_reused": 4,
    "wrong_state": 4,
    "lease_held": 4,
    "lease_lost": 4,
    "budget_exceeded": 4,
    "on_hold": 4,
    "has_forks": 4,
    "lossy": 4,
    "unauthenticated": 5,
    "denied": 5,
    "too_many_requests": 6,
    "unavailable": 6,
    "busy": 6,
    "disk_full": 7,
    "damaged": 8,
    "schema_newer": 9,
    "schema_outdated": 9,
}


def exit_code(code: str) -> int:
    return EXITS.get(code, 1)
