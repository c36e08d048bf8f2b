"""One thread for the linear algebra of small matrices.

On two cores that other processes share, a fit of 100 coordinates takes 3.6 ms on one thread of OpenBLAS and 440 ms on
two, which wait for each other; on idle cores the second thread gains nothing. Of 785 coordinates, a fit alone gains a
third by it, but OpenBLAS's threads and XLA's wait for each other: learning takes 1.4 s with two and 1.2 s with one.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

from gadabout.driver.lapack import find_lapack

LARGEST = 2_000
"""coordinates up to which a second thread loses more than it gains; beyond, no covariance is fitted unasked"""
_lock = threading.Lock()
_limits: list = []
"""one for each run under way; the first of them knows what was before"""


@contextmanager
def one_thread(n: int) -> Iterator[None]:
    """BLAS and LAPACK work on one thread while it lasts, if there are at most `LARGEST` coordinates.

    That holds for the whole process. What was before is put back when the last of several runs ends.
    """
    if n > LARGEST:
        yield
        return
    with _lock:
        _limits.append(_libraries().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            limit = _limits.pop()
            if not _limits:
                limit.restore_original_limits()


@cache
def _libraries() -> ThreadpoolController:
    """The libraries of linear algebra that NumPy and XLA call; XLA finds its own in SciPy."""
    find_lapack()
    return ThreadpoolController()
