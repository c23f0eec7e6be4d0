"""Looks on: validators, leak detection and reports read a run and never change it."""
