"""Secrets in texts: rules that say what one looks like, a scanner that finds them, marks that stand in their place.

`gitleaks.toml` is the rule file of gitleaks, unchanged, under the licence beside it (MIT). `clew.toml` is ours, in the
same form: what is added to it, and what is quiet here. A newer gitleaks.toml is taken by copying it over the old one.
"""

# The gitleaks that the rule file is of: 27 commits after its version 8.30.0.
RULES_OF = "gitleaks b58d3f102cf3a2c84cb7f923d05c25c9b1aed84b"
