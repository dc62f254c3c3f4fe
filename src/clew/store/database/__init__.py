"""SQLite and PostgreSQL behind one contract; private to the store."""
