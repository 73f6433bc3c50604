"""How statements and expressions of Python change what is known."""
