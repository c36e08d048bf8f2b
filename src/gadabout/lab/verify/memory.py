"""Peak memory against the number of draws, of runs that store them."""

import subprocess
import sys
import tempfile
from pathlib import Path

from gadabout.lab.verify.frame import Figure, Found, Item, Parts
from gadabout.lab.verify.stored import programs

FLAT = 1.25
"""largest ratio of a peak to that of 100,000 draws; diagnostics read at most 100,000 draws of a chain"""
CODE = """
import resource, sys, warnings
warnings.simplefilter("ignore")
import jax
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import gadabout as gad
told = []
from gadabout.store import ZarrSink
reserve = ZarrSink.reserve
ZarrSink.reserve = lambda self, disk, memory: (told.append((disk, memory)), reserve(self, disk, memory))[1]
gad.sample(
    lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(25), sampler=gad.gad_mala(),
    num_chains=8, num_warmup=500, num_draws=int(sys.argv[1]), out=sys.argv[2], progress=False,
)
try:
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    peak = int(status["VmHWM"].split()[0])
except OSError:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # on Linux it begins with that of the process before
print(peak * 1024, *told[0])
"""


def _peak(draws: int) -> list[int]:
    """Bytes of a process that stores `draws` draws: peak memory, predicted disk, predicted memory, and disk."""
    with programs() as environment, tempfile.TemporaryDirectory(prefix="gadabout-memory-") as folder:
        path = Path(folder) / "run.zarr"
        done = subprocess.run(
            [sys.executable, "-c", CODE, str(draws), str(path)],
            env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        return [*map(int, done.stdout.split()), size]


def _found(full: bool, store: Parts) -> Found:
    lengths = (1_000, 100_000, 400_000, 1_600_000) if full else (1_000, 100_000)
    found = {draws: store.part("memory", {"draws": draws}, lambda d=draws: _peak(d)) for draws in lengths}
    base, most = found[lengths[0]][0], max(lengths)
    judged = found[100_000][0]
    figures = [Figure(f"peak of {draws:,} draws, MB", round(peak[0] / 1e6)) for draws, peak in found.items()]
    growth = found[most][0] / judged
    if full:
        figures.append(Figure(f"{most:,} draws over 100,000", round(growth, 3), f"at most {FLAT}", growth <= FLAT))
    memory = (found[most][0] - base) / found[most][2]
    figures.append(
        Figure(
            "memory beyond that of the shortest run, over what was predicted",
            round(memory, 2),
            "at most 1.5",
            memory <= 1.5,
        )
    )
    disk = found[most][3] / found[most][1]
    figures.append(Figure("disk, over what was predicted", round(disk, 2), "at most 1.1", disk <= 1.1))
    told = f", {growth:.2f} times that at 100,000" if full else ""
    return Found(figures, f"{found[most][0] / 1e6:,.0f} MB at {most:,} draws{told}")


MEMORY = Item(
    "memory",
    "Peak memory against draws",
    "draws that are kept in memory beside the store, diagnostics that read all of them at once",
    _found,
)
