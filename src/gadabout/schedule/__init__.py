"""The stages of a run, and the plan that consists of them."""

from gadabout.schedule.context import Context, Handover
from gadabout.schedule.plan import Plan, lengths, plan_of
from gadabout.schedule.stages import AbstractStage, Draw, Learn, Search

__all__ = ["AbstractStage", "Context", "Draw", "Handover", "Learn", "Plan", "Search", "lengths", "plan_of"]
