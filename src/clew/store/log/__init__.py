"""The log: appending, reading, leases, verification, removal."""
