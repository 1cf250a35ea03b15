"""The HTTP door: parse, ask a command or a view, shape the answer."""
