"""Commands written by hand, one file each. A file is found by the name of its command; `command` is what it makes."""
