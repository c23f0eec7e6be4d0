#!/usr/bin/env python3
"""Check that memory isolation works here: `myxtts validate --check isolation`."""

from myxtts.cli.app import main

if __name__ == "__main__":
    main(["validate", "--check", "isolation"])
