"""One thread for the linear algebra of small matrices.

On two cores that other processes share, a fit of 100 coordinates takes 3.6 ms on one thread of OpenBLAS and 440 ms on
two, which wait for each other; on idle cores the second thread gains nothing. Of 785 coordinates, a fit alone gains a
third by it, but OpenBLAS's threads and XLA's wait for each other: learning takes 1.4 s with two and 1.2 s with one.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from threadpoolctl import threadpool_limits

_lock = threading.Lock()
_limits: list[threadpool_limits] = []
"""one for each run under way; the first of them knows what was before"""


@contextmanager
def one_thread(compiled: bool = True) -> Iterator[None]:
    """BLAS and LAPACK work on one thread while it lasts; `compiled` says whether XLA's, which are SciPy's, do too.

    That holds for the whole process. What was before is put back when the last of several runs ends.
    """
    if compiled:
        import_module("scipy.linalg")  # a library that is loaded later would not be limited
    with _lock:
        _limits.append(threadpool_limits(1, "blas"))
    try:
        yield
    finally:
        with _lock:
            limit = _limits.pop()
            if not _limits:
                limit.restore_original_limits()
