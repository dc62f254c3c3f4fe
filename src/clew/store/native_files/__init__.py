"""The native files of agent programs, byte for byte."""
