"""Capturing: find the files of agent programs, read what is new, append it."""
