"""`make bench`: horae beside the bare database and beside its peers, on servers of its own."""
