"""Views: tables folded from the log, in step with it, and built again from it whenever that is asked for."""
