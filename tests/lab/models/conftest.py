"""Test files are imported by path; this lets them share `model_cases`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
