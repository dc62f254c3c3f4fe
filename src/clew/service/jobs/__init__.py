"""Background jobs: each kind of job is one declaration in one file; and the operations on jobs."""
