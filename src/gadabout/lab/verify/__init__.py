"""Evidence that the library works as documented: reproducible figures, and the mistakes that each would catch."""

from gadabout.lab.verify.alarms import ALARMS
from gadabout.lab.verify.bias import BIAS
from gadabout.lab.verify.calibration import CALIBRATION
from gadabout.lab.verify.coverage import COVERAGE
from gadabout.lab.verify.damage import DAMAGE
from gadabout.lab.verify.devices import DEVICE_LAYOUTS
from gadabout.lab.verify.frame import Figure, Found, Item, Parts, Result, run
from gadabout.lab.verify.hard import HARD
from gadabout.lab.verify.invariance import INVARIANCE
from gadabout.lab.verify.killed import KILLED
from gadabout.lab.verify.memory import MEMORY
from gadabout.lab.verify.page import circumstances, page
from gadabout.lab.verify.planted import PLANTED
from gadabout.lab.verify.refusals import REFUSALS
from gadabout.lab.verify.same_bits import SAME_BITS
from gadabout.lab.verify.start import START

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
        HARD,
        SAME_BITS,
        DEVICE_LAYOUTS,
        REFUSALS,
        KILLED,
        DAMAGE,
        MEMORY,
    )
}
"""Items that `gadabout verify` runs, in this order. A new item is one file, and one line here."""

__all__ = ["ITEMS", "Figure", "Found", "Item", "Parts", "Result", "circumstances", "page", "run"]
