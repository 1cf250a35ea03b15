"""Telling the outside."""
