"""What a run does, as stages in a plan."""

from gadabout.schedule.plan import Plan, lengths, plan_of
from gadabout.schedule.stages import AbstractStage, Draw, Handover, Learn, Search

__all__ = ["AbstractStage", "Draw", "Handover", "Learn", "Plan", "Search", "lengths", "plan_of"]
