"""What every operation stands on: the context, the registry, the call, the audit record."""
