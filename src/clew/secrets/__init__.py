"""Secrets in texts: rules that describe them, a scanner that finds them, marks that replace them.

`gitleaks.toml` is the rule file of gitleaks, unchanged, under the licence beside it (MIT). `clew.toml` is ours, in the
same format: it adds rules and disables some. To update, copy a newer gitleaks.toml over the old one.
"""

# The rule file comes from this commit of gitleaks, 27 commits after its version 8.30.0.
RULES_OF = "gitleaks b58d3f102cf3a2c84cb7f923d05c25c9b1aed84b"

# How far a secret can reach from one part of a file into the next.
REACH = 8 * 1024
