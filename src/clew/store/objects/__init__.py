"""Bytes named by their digest."""
