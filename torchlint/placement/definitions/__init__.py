"""Functions and classes of the project: their records, summaries and attributes."""
