"""What tests stand on: real servers, real processes, real disks. Imported as `support`."""
