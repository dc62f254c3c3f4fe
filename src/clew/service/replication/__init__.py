"""What two stores tell each other of a session."""
