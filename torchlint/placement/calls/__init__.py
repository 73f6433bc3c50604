"""Who is called, with what, what that joins, and what comes back."""
