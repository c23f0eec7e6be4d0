"""How many threads multiply matrices: ours are so small that a second one only gets in the way."""

from __future__ import annotations


def calm_blas() -> None:
    """One thread for NumPy's products from now on, in the whole process: for programs of ours.

    On two busy cores speech took several times as long with two threads.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return  # slower, and as right
    threadpool_limits(limits=1, user_api="blas")
