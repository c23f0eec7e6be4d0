#!/usr/bin/env python3
"""Find what holds training back: `myxtts profile`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run from a fresh clone

from myxtts.cli.app import main

if __name__ == "__main__":
    main(["profile"])
