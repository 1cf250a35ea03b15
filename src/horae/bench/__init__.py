"""How fast horae is on a database at hand, beside the same SQL run bare: `horae bench`."""
