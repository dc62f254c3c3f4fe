"""One module for each agent program: it declares how that program's sessions are read and written."""
