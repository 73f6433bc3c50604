"""How right torchlint is on code that nobody wrote for it: labelled lines, real fixes, findings drawn at random."""
