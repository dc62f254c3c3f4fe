"""The real agent clients, run against a scripted model. Imported as `clients`."""
