"""Memory that is freed on the CPU stays with the process, which saves the system's page work."""

from __future__ import annotations

import sys

import pytest

from tests.support import run_python

COUNT_PAGES = """
import resource
import numpy as np
from myxtts.pipeline.host_memory import keep_freed_memory

def pages_of_large_arrays():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.ones(2**26, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

before = pages_of_large_arrays()
assert keep_freed_memory()
pages_of_large_arrays()
print(before, pages_of_large_arrays())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only the GNU C library can be told to")
def test_a_large_array_made_again_takes_no_new_pages():
    result = run_python(["-c", COUNT_PAGES])
    assert result.returncode == 0, result.stderr
    before, kept = map(int, result.stdout.split())
    assert kept < before / 10
