#!/usr/bin/env python3
"""Train a voice: the same as `myxtts train`."""

from myxtts.cli.app import main

if __name__ == "__main__":
    main(["train"])
