"""Warm-up as data: a run is a sequence of stages, the last of which adapts nothing."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """A stretch of a run: its share of `num_warmup` (None for the sampling stage), and whether θ moves in it."""

    name: str
    share: float | None
    adapt: bool


WARMUP_THEN_SAMPLING = (Stage("warmup", 1.0, True), Stage("sampling", None, False))


def lengths(schedule: tuple[Stage, ...], num_warmup: int) -> list[int]:
    """Iterations of each warm-up stage, which add up to `num_warmup`; the sampling stage is not among them.

    Raises ValueError where the last stage adapts or another one is without a share, or the shares do not sum to one.
    """
    *warmup, last = schedule
    if last.adapt or last.share is not None:
        raise ValueError(f"the last stage of a schedule must be the sampling stage, which adapts nothing; got {last}")
    shares = [stage.share for stage in warmup if stage.share is not None]
    if len(shares) < len(warmup) or any(s < 0 for s in shares) or (shares and abs(sum(shares) - 1) > 1e-9):
        raise ValueError(f"the shares of the warm-up stages must be non-negative and sum to 1, got {shares}")
    ends = [round(num_warmup * sum(shares[: i + 1])) for i in range(len(shares))]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]
