"""Evidence that the library does what it promises: figures that anyone can make again, and what each would catch."""

from gadabout.verify.alarms import ALARMS
from gadabout.verify.bias import BIAS
from gadabout.verify.calibration import CALIBRATION
from gadabout.verify.coverage import COVERAGE
from gadabout.verify.damage import DAMAGE
from gadabout.verify.devices import DEVICE_LAYOUTS
from gadabout.verify.frame import Figure, Found, Item, Kept, Result, run
from gadabout.verify.invariance import INVARIANCE
from gadabout.verify.killed import KILLED
from gadabout.verify.memory import MEMORY
from gadabout.verify.page import circumstances, page
from gadabout.verify.planted import PLANTED
from gadabout.verify.refusals import REFUSALS
from gadabout.verify.same_bits import SAME_BITS
from gadabout.verify.start import START

ITEMS: dict[str, Item] = {
    item.name: item
    for item in (
        INVARIANCE,
        BIAS,
        CALIBRATION,
        PLANTED,
        COVERAGE,
        START,
        ALARMS,
        SAME_BITS,
        DEVICE_LAYOUTS,
        REFUSALS,
        KILLED,
        DAMAGE,
        MEMORY,
    )
}
"""What `gadabout verify` runs, in this order. A new item is one file, and one line here."""

__all__ = ["ITEMS", "Figure", "Found", "Item", "Kept", "Result", "circumstances", "page", "run"]
