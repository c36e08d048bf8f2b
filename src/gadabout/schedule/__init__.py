"""What a run does, as stages in a plan."""

from gadabout.schedule.choose import Choose, Chosen, Trust
from gadabout.schedule.plan import Plan, lengths, plan_of
from gadabout.schedule.stages import AbstractStage, AbstractWarmup, Descend, Draw, Hold, Learn, Rest, Search, Warm

__all__ = [
    "AbstractStage",
    "AbstractWarmup",
    "Choose",
    "Chosen",
    "Descend",
    "Draw",
    "Hold",
    "Learn",
    "Plan",
    "Rest",
    "Search",
    "Trust",
    "Warm",
    "lengths",
    "plan_of",
]
