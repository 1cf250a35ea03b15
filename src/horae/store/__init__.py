"""The truth, in SQL; no other room speaks it."""
