"""The actions of pages, by what they are about."""
