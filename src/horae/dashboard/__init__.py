"""The dashboard's door: the built page and nothing else; all it shows comes from the public API."""
