"""Bundles: sessions as one file, with everything that belongs to them, for a machine without a connection."""
