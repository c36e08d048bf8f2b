"""Evidence that the library does what it promises: figures that anyone can make again, and what each would catch."""

from gadabout.verify.frame import Figure, Found, Item, Kept, Result, run
from gadabout.verify.invariance import INVARIANCE
from gadabout.verify.page import circumstances, page

ITEMS: dict[str, Item] = {item.name: item for item in (INVARIANCE,)}
"""What `gadabout verify` runs, in this order. Room for more: runs that are killed, damaged checkpoints, memory."""

__all__ = ["ITEMS", "Figure", "Found", "Item", "Kept", "Result", "circumstances", "page", "run"]
