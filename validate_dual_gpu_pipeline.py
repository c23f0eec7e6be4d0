#!/usr/bin/env python3
"""Check that the two-device pipeline works here: `myxtts validate --check pipeline`."""

from myxtts.cli.app import main

if __name__ == "__main__":
    main(["validate", "--check", "pipeline"])
