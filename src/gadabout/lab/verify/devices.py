"""Chains over 1, 2 and 4 host devices: the same bits in equal blocks, else equal up to rounding, and then in law."""

import contextlib
import io
import json
import sys
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from gadabout.algorithms import default
from gadabout.driver import loop
from gadabout.lab.json_process import answer
from gadabout.lab.verify.exact import SKEW
from gadabout.lab.verify.frame import FALSE_ALARM, Figure, Found, Item, Parts, bound
from gadabout.lab.verify.samplers import exact_samplers
from gadabout.lab.verify.sampling import sample
from gadabout.sampler import Sampler
from gadabout.schedule import Handover, Plan
from gadabout.target import Target

DEVICES = 4
CHAINS, BLOCK, WARMUP, DRAWS = 16, 4, 60, 80
COMPARED = 50
"""iterations over which chains that learn together are compared"""
ROUNDING = 1e-10
LAW: dict[str, Any] = {"num_chains": 64, "num_warmup": 500, "num_draws": 1_000}
DEFAULT = "default"
QUICK = ("gad-mala", DEFAULT)


def _sampler(name: str) -> Sampler | Plan:
    return default() if name == DEFAULT else exact_samplers(SKEW)[name]


def _drawn(name: str, devices: int | None, *, moved: bool = False, **arguments: Any) -> tuple[np.ndarray, np.ndarray]:
    """Draws (chain, draw, n) of the skew target in warm-up, and after it.

    Chains start from exact draws, or from the next larger floating-point numbers if `moved`.
    """
    arguments = {"num_chains": CHAINS, "num_warmup": WARMUP, "num_draws": DRAWS} | arguments
    start = SKEW.draws(jax.random.key(5), arguments["num_chains"])
    start = jnp.nextafter(start, jnp.inf) if moved else start
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore", UserWarning)
        tree = sample(
            SKEW.log_density, init_per_chain=start, sampler=_sampler(name), seed=1, devices=devices, progress=False,
            **arguments,
        )  # fmt: skip
    warmup, posterior = (tree[group].to_dataset()["x"].values for group in ("warmup_posterior", "posterior"))
    return warmup, posterior


def _iteration_by_iteration(name: str) -> float:
    """Largest difference between 1 and 4 devices after one iteration from the same state, over 50 iterations."""
    sampler, target, fields = exact_samplers(SKEW)[name], Target(SKEW.log_density), (loop.POSITION,)
    mesh = Mesh(np.array(jax.devices()[:DEVICES]), (loop.CHAINS,))
    keys, starts = jax.random.split(jax.random.key(1), CHAINS), SKEW.draws(jax.random.key(5), CHAINS)
    run, apart = loop.start(sampler, target, Handover(keys, jnp.zeros((), jnp.uint32), starts), True), 0.0
    for _ in range(COMPARED):
        copied = jax.tree.map(lambda leaf: jnp.copy(leaf) if isinstance(leaf, jax.Array) else leaf, run)
        four = loop.advance(sampler, target, loop.lay(copied, mesh), 1, 1, True, fields, mesh=mesh)[1]
        run, one, _ = loop.advance(sampler, target, run, 1, 1, True, fields)
        apart = max(apart, _apart(*(np.asarray(rows[loop.POSITION][0]) for rows in (one, four))))
    return apart


def _apart(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.max(np.abs(other - one) / np.maximum(1, np.abs(one))))


def measured(name: str) -> dict[str, Any]:
    """Compares a sampler's chains over 1, 2 and 4 devices, in a process that has four."""
    alone: dict[str, Any] = {"adapt": "per-chain", "chain_block": BLOCK}
    first, *others = (np.concatenate(_drawn(name, over, **alone), 1) for over in (None, 1, 2, DEVICES))
    same = all(np.array_equal(other, first) for other in others)
    early = lambda over, **more: _drawn(name, over, **more)[0][:, :COMPARED]
    equal = _apart(*(early(over, chain_block=BLOCK) for over in (None, DEVICES)))
    one = early(None)
    apart = {"equal": equal, "other": _apart(one, early(DEVICES))}
    if apart["other"] > ROUNDING:  # checks whether rounding grows on one device too
        each = apart["other"] if name == DEFAULT else _iteration_by_iteration(name)
        apart |= {"grown": _apart(one, early(None, moved=True)), "each": each}
    x = SKEW.standardised(jnp.asarray(_drawn(name, DEVICES, **LAW)[1]))
    means = np.concatenate([np.asarray(x).mean(1), np.asarray(x**2).mean(1) - 1], -1)
    t = means.mean(0) / (means.std(0, ddof=1) / np.sqrt(len(means)))
    return {"same": same, "apart": apart, "t": t.tolist()}


def _elsewhere(name: str) -> dict[str, Any]:
    """The result of `measured` from a process of its own: host devices must be configured before JAX is used."""
    devices = {"JAX_NUM_CPU_DEVICES": str(DEVICES), "JAX_PLATFORMS": "cpu"}
    return answer(f"{name} over devices", __name__, name, devices | {"JAX_ENABLE_X64": "1"})


def _found(full: bool, store: Parts) -> Found:
    """Every exact sampler and the default in the full version, one sampler and the default in the quick one."""
    names = [*exact_samplers(SKEW), DEFAULT] if full else QUICK
    settings = {"chains": CHAINS, "block": BLOCK, "warmup": WARMUP, "draws": DRAWS, "devices": DEVICES, "law": LAW}
    parts = {name: store.part(f"devices-{name}", settings, lambda name=name: _elsewhere(name)) for name in names}
    differing = [name for name in names if not parts[name]["same"]]
    largest = {blocks: {name: parts[name]["apart"][blocks] for name in names} for blocks in ("equal", "other")}
    far = {blocks: [name for name in names if not largest[blocks][name] <= ROUNDING] for blocks in largest}
    equal = sum(value == 0 for value in largest["equal"].values())
    t = np.abs([parts[name]["t"] for name in names])
    threshold = bound(t.size, LAW["num_chains"])
    detectable = (threshold + 1.645) / np.sqrt(LAW["num_chains"])
    count = lambda wrong: f"{len(names) - len(wrong)} of {len(names)} samplers" + (f", not {wrong}" if wrong else "")
    grown = {name: parts[name]["apart"] for name in far["other"]}
    told = ", ".join(
        f"{name} {x['other']:.1e} (on one device, from starts moved by one rounding, {x['grown']:.1e}), iteration by "
        f"iteration {x['each']:.1e}"
        for name, x in grown.items()
    )
    far["each"] = [name for name, x in grown.items() if not x["each"] <= ROUNDING]
    first = f"in the first {COMPARED} iterations"
    figures = [
        Figure("same bits over 1, 2 and 4 devices, each chain learning alone", count(differing), "all", not differing),
        Figure(f"chains that learn together, in equal blocks: apart by at most {ROUNDING:g} {first}",
               count(far["equal"]), "all", not far["equal"],
               f"{equal} of them by nothing; largest difference {max(largest['equal'].values()):.1e}"),
        Figure(f"the same, in blocks of {CHAINS} and {CHAINS // DEVICES} chains, which round otherwise; where rounding "
               "grows, each iteration begun where one device has got to", count(far["each"]),
               "all", not far["each"], f"rounding grows in {told}" if told else ""),
        Figure("law over 4 devices: largest |t| of means and variances", float(t.max()), f"at most {threshold:.1f}",
               bool(t.max() <= threshold), f"{FALSE_ALARM:g} false alarms in all"),
        Figure("smallest shift found with 95 %, in standard deviations between chains", float(detectable)),
    ]  # fmt: skip
    return Found(figures, f"bits {figures[0].value}; together {figures[1].value}; largest |t| {t.max():.1f}")


DEVICE_LAYOUTS = Item(
    "devices",
    "Chains laid over several devices",
    "chains mixed up or drawn twice, sums that leave a device out, θ that differs between devices, noise that depends "
    "on where a chain lies",
    _found,
)

if __name__ == "__main__":
    print(json.dumps(measured(json.loads(sys.argv[1]))))
