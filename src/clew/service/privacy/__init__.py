"""What must not be kept or shown: masking, retention, erasure."""
