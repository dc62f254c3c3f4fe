"""Operations that protect data: masking, retention, erasure."""
