"""Scripts for people who work on torchlint; not part of the installed package."""
