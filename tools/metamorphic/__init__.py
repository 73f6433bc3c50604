"""Rewrites of programs that keep their meaning, and how many of them keep what torchlint finds."""
