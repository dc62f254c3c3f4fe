"""Handing a session over: resume elsewhere, export, brief."""
