"""The pages, a module for each. A page calls operations and gives their results to its template; it decides nothing."""
