"""While nothing is looked for, nothing is lost."""

import gc
import weakref

import pytest

from gadabout.garbage import uncollected


class Cycle:
    def __init__(self):
        self.own = self


def test_what_becomes_garbage_meanwhile_is_found_afterwards():
    with uncollected():
        assert not gc.isenabled()
        cycle = weakref.ref(Cycle())
        assert cycle() is not None
    assert gc.isenabled()
    gc.collect()
    assert cycle() is None


def test_who_looks_for_none_and_who_froze_objects_is_left_alone():
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
    gc.freeze()
    try:
        with pytest.raises(KeyError), uncollected():
            raise KeyError
        assert gc.isenabled()
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()
