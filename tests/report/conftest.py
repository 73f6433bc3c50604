"""Lets the tests of reports import their samples."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
