"""Everything that follows the log or the clock: one runner, and a file for each consumer."""
