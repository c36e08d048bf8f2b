"""The streams of a run's randomness: a key for each purpose, so that none is used for two."""

from enum import IntEnum

import jax
from jaxtyping import Array, Key


class Stream(IntEnum):
    """What the noise of a stream is for; the number is folded into the key of the seed."""

    STARTS = 0
    CHAINS = 1
    PREDICTIONS = 0x7072_6564


def stream_key(seed: int, stream: Stream) -> Key[Array, ""]:
    """The key of one stream of a run with this seed."""
    return jax.random.fold_in(jax.random.key(seed), int(stream))
