"""The audit log, checkpoints, proofs, and verification."""
