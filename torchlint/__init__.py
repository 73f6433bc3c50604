"""torchlint: a linter for PyTorch device-placement bugs, with fixes and a runtime verifier."""

__version__ = "0.1.0"
