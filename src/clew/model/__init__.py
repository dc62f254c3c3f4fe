"""Values and rules: no I/O, no clock, no third-party imports except the codec."""
