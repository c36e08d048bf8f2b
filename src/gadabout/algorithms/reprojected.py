"""Any sampler with its adaptation reprojected on growing compact sets (Andrieu & Moulines 2006, section 2)."""

import dataclasses

from gadabout.adaptations import Reprojection, extent, go_home
from gadabout.adaptations.reprojection import Level, Reset
from gadabout.algorithms.haario import haario
from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.settings import positive
from gadabout.checks import check_function, check_positive, shown
from gadabout.sampler import Sampler


@recipe
def reprojected(
    sampler: Sampler | None = None,
    *,
    bound: float = 1e3,
    growth: float = 2.0,
    level: Level = extent,
    reset: Reset = go_home,
) -> Sampler:
    """Any sampler, adaptive Metropolis by default, reset whenever θ leaves a growing compact set.

    Args:
        sampler: the sampler whose adaptation is wrapped; `haario()` by default.
        bound: bound of the first compact set, {θ : level(θ) ≤ bound}.
        growth: the factor by which the bound grows at each reset, above 1.
        level: maps the kernel and the adaptation's memory to a scalar with compact level sets (see `Reprojection`).
        reset: the map Π that returns the chains and θ: `go_home`, `stay_within(radius)` or the user's own.

    Raises:
        ValueError: if a setting is out of range.
    """
    sampler = haario() if sampler is None else sampler
    if not isinstance(sampler, Sampler):
        raise TypeError(f"sampler must be a recipe's result, such as gadabout.haario(), got {shown(sampler)}")
    if check_positive("growth", growth) <= 1:
        raise ValueError(f"growth must be a finite number above 1, or the sets do not cover all θ; got {growth}")
    check_function("level", level, "(kernel, memory)")
    check_function("reset", reset, "(home, kernel, states)")
    adaptation = Reprojection(sampler.adaptation, positive("bound", bound), growth, level, reset)  # pyright: ignore
    return dataclasses.replace(sampler, name=f"reprojected-{sampler.name}", adaptation=adaptation)
