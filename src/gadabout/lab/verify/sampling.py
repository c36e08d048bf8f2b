"""Runs that raise if they are interrupted, since half a run gives no figure."""

from functools import wraps
from typing import Any

from gadabout import api


@wraps(api.sample)
def sample(*arguments: Any, **named: Any) -> Any:
    """`gadabout.sample`, which raises KeyboardInterrupt instead of returning the draws made until an interruption."""
    tree = api.sample(*arguments, **named)
    if tree.attrs["interrupted"]:
        raise KeyboardInterrupt
    return tree
