"""Measurements, each run as `python -m benchmarks.NAME`; compare within one run, as a ratio.

`feeding` is what `train` measures with.
"""
