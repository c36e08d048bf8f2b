"""What a run does, as stages in a plan."""

from gadabout.schedule.choose import Choose, Chosen
from gadabout.schedule.judge import Judge
from gadabout.schedule.plan import Plan, lengths, plan_of
from gadabout.schedule.sift import Sift
from gadabout.schedule.stages import AbstractStage, AbstractWarmup, Descend, Draw, Hold, Learn, Rest, Search, Warm

__all__ = [
    "AbstractStage",
    "AbstractWarmup",
    "Choose",
    "Chosen",
    "Descend",
    "Draw",
    "Hold",
    "Judge",
    "Learn",
    "Plan",
    "Rest",
    "Search",
    "Sift",
    "Warm",
    "lengths",
    "plan_of",
]
