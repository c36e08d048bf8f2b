"""Warm-up as data: a run is a sequence of stages, the last of which is the sampling stage."""

from collections.abc import Callable
from dataclasses import dataclass


def one_window(length: int) -> list[int]:
    """A stage of `length` iterations in one piece."""
    return [length]


def doubling_windows(length: int, first: int = 75, slow: int = 25, last: int = 50) -> list[int]:
    """Stan's warm-up: a buffer, windows that double, and a buffer, which add up to `length`.

    The last window takes in what is left where no other of twice its length fits. A length that does not hold one slow
    window between the buffers is divided 15 : 75 : 10, one below 20 not at all. For 1,000: 75, 25, 50, 100, 200, 500
    and 50.
    """
    if length < 20:
        return [length]
    if length <= first + slow + last:
        first, last = int(0.15 * length), int(0.1 * length)
        return [first, length - first - last, last]
    windows, left = [], length - first - last
    while left:
        window = slow * 2 ** len(windows)
        window = left if left < 3 * window else window
        windows.append(window)
        left -= window
    return [first, *windows, last]


@dataclass(frozen=True)
class Stage:
    """A stretch of a run: its share of `num_warmup` (None for the sampling stage), and whether θ moves in it.

    A warm-up stage runs in windows, functions of its length; the adaptation's `finish` is called at the end of each.
    """

    name: str
    share: float | None
    adapt: bool
    windows: Callable[[int], list[int]] = one_window

    @property
    def is_warmup(self) -> bool:
        """Whether its draws stay out of the posterior."""
        return self.share is not None


STOP_AFTER_WARMUP = (Stage("warmup", 1.0, True), Stage("sampling", None, False))
"""θ is learned in warm-up and frozen afterwards: the default, and exact for any adaptation."""

ADAPT_FOR_EVER = (Stage("warmup", 1.0, True), Stage("sampling", None, True))
"""θ goes on being learned while draws are kept: right only where the adaptation's gains diminish."""


def lengths(schedule: tuple[Stage, ...], num_warmup: int) -> list[int]:
    """Iterations of each warm-up stage, which add up to `num_warmup`; the sampling stage is not among them.

    Raises ValueError where the last stage is not the one without a share, or the shares do not sum to one.
    """
    *warmup, last = schedule
    shares = [stage.share for stage in warmup if stage.share is not None]
    if last.is_warmup or len(shares) < len(warmup):
        raise ValueError(f"the last stage of a schedule, and no other, must be without a share; got {schedule}")
    if any(share < 0 for share in shares) or (shares and abs(sum(shares) - 1) > 1e-9):
        raise ValueError(f"the shares of the warm-up stages must be non-negative and sum to 1, got {shares}")
    ends = [round(num_warmup * sum(shares[: i + 1])) for i in range(len(shares))]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]
