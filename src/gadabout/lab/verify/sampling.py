"""Runs whose interruption ends the evidence too: half a run is no figure."""

from functools import wraps
from typing import Any

from gadabout import api


@wraps(api.sample)
def sample(*arguments: Any, **named: Any) -> Any:
    """`gadabout.sample`, which raises KeyboardInterrupt where it would return the draws made until an interruption."""
    tree = api.sample(*arguments, **named)
    if tree.attrs["interrupted"]:
        raise KeyboardInterrupt
    return tree
