"""One module for each agent program, which declares how to read and write its sessions."""
