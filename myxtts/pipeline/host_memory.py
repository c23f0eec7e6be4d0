"""How the C library treats memory that TensorFlow frees on the CPU."""

from __future__ import annotations

import ctypes

# Names and numbers of glibc's malloc.h.
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
_NEVER = 2**31 - 1


def keep_freed_memory() -> bool:
    """Have freed memory kept for the next batch; False where the C library cannot.

    On its own glibc gives every large tensor back to the system at once, and the next batch gets
    it page by page, each emptied again: more than half of a data stage's CPU time went there.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library, or another system
        return False
    return bool(mallopt(M_MMAP_MAX, 0)) and bool(mallopt(M_TRIM_THRESHOLD, _NEVER))
