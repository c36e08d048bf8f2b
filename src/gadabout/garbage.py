"""To keep Python from looking for garbage where there is none."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """No cycles are looked for meanwhile; what is there in the end counts as old, and is seldom gone through.

    What is imported or traced stays. (A new process looks for cycles in it for 0.26 of 7 seconds to its first draws.)
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()  # into the oldest generation
            gc.enable()
