"""Proves what a machine can do."""
