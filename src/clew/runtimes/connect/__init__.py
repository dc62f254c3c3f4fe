"""Editing the settings of agent programs."""
