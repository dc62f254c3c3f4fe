"""Copying sessions between two stores: push, pull, and the operations that both use."""
