"""How each kind of job is run: a request in, an outcome out."""
