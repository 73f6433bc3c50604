"""The formats in which findings are shown, one module each."""
