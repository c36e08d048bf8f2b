"""Effective sample size as the paper reports it."""

import numpy as np

from gadabout.checks import check_array

MIN_DRAWS = 4
BLOCK = 1_000_000  # numbers transformed at once: bounds the memory of the Fourier transforms to some 100 MB


def check_draws(draws: np.ndarray) -> np.ndarray:
    """The draws in float64; raises ValueError unless their shape is (chain, draw, n) without empty axes."""
    draws = check_array("draws", draws, "an array of shape (chain, draw, n)", finite=False)
    if draws.ndim != 3 or 0 in draws.shape:
        raise ValueError(
            f"draws must have the shape (chain, draw, n), none of them zero; got {draws.shape}: "
            "add the missing axes, for one chain draws[None]"
        )
    return draws


def initial_monotone_ess(draws: np.ndarray) -> np.ndarray:
    r"""Effective sample size of one chain by Geyer's initial monotone sequence, averaged over chains; shape (n,).

    With the autocorrelations $\rho_t$ of one coordinate over the whole chain of N draws (biased autocovariances,
    divided by N), $\Gamma_k = \rho_{2k} + \rho_{2k+1}$ is cut at the first k where it is not positive, replaced by its
    running minimum, and $\mathrm{ESS} = N / \max(1, -1 + 2\sum_k \Gamma_k)$ (Geyer 1992, section 3.3; the clamp, by
    which ESS ≤ N, is the paper's). `draws` has the shape (chain, draw, n). A chain that never moves in a coordinate
    counts as one draw there. The result is NaN for fewer than 4 draws, and where a draw is not finite.
    """
    draws = check_draws(draws)
    _, length, n = draws.shape
    if length < MIN_DRAWS:
        return np.full(n, np.nan)
    block = max(1, BLOCK // length)
    return np.mean([np.concatenate([_block_ess(c[:, i : i + block]) for i in range(0, n, block)]) for c in draws], 0)


def _block_ess(draws: np.ndarray) -> np.ndarray:
    """Initial monotone ESS of some coordinates of one chain, (draw, coordinate) to (coordinate,)."""
    draws = np.ascontiguousarray(draws.T)
    ess = np.full(len(draws), np.nan)
    finite = np.isfinite(draws).all(axis=1)
    ess[finite] = 1.0
    moving = finite & (draws.max(axis=1) > draws.min(axis=1))
    if moving.any():
        ess[moving] = draws.shape[1] / np.maximum(1.0, integrated_time(_autocorrelation(draws[moving])))
    return ess


def _autocorrelation(draws: np.ndarray) -> np.ndarray:
    """Autocorrelations at all lags along the last axis, by the Fourier transform."""
    length = draws.shape[-1]
    centred = draws - draws.mean(axis=-1, keepdims=True)
    centred /= np.abs(centred).max(axis=-1, keepdims=True)  # no underflow or overflow in the squares
    padded = 2 ** (2 * length - 1).bit_length()
    transform = np.fft.rfft(centred, padded, axis=-1)
    power = transform.real**2 + transform.imag**2
    autocovariance = np.fft.irfft(power, padded, axis=-1)[..., :length]
    return autocovariance / autocovariance[..., :1]


def integrated_time(autocorrelation: np.ndarray) -> np.ndarray:
    """−1 + 2 Σ Γ over the initial monotone sequence, along the last axis."""
    pairs = autocorrelation.shape[-1] // 2
    gamma = autocorrelation[..., : 2 * pairs].reshape(-1, pairs, 2).sum(axis=-1)
    positive = np.logical_and.accumulate(gamma > 0, axis=-1)
    monotone = np.minimum.accumulate(gamma, axis=-1)
    return -1.0 + 2.0 * np.sum(monotone, axis=-1, where=positive)
