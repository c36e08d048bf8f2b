"""How much memory a run may take: that of the machine, or of the control group that it is in."""

import os

import numpy as np
import pytest

import gadabout as gad
from gadabout.driver.limits import available_memory, check_memory

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
UNLIMITED = "9223372036854771712"


@pytest.fixture
def groups(tmp_path):
    """A function that makes control groups, of the limits of their files, and those of the process."""

    def made(own, **limits):
        for name, limit in limits.items():
            file = tmp_path / "cgroup" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{limit}\n")
        (tmp_path / "own").write_text(own)
        return tmp_path / "cgroup", tmp_path / "own"

    return made


@pytest.mark.parametrize(
    ("own", "limits", "expected"),
    [
        ("0::/job/step\n", {"job/step/memory.max": 2**29, "job/memory.max": "max"}, 2**29),
        ("0::/job/step\n", {"job/step/memory.max": "max", "job/memory.max": 2**28}, 2**28),
        ("0::/job\n", {"memory.max": 2**27}, 2**27),  # in a container its own group is the root of what it sees
        ("5:devices:/\n4:memory:/job\n0::/\n", {"memory/job/memory.limit_in_bytes": 2**26}, 2**26),
        ("4:cpu,memory:/a/b\n", {f"memory/{name}/memory.limit_in_bytes": 2**25 for name in ("a", "a/b")}, 2**25),
        ("4:cpu:/job\n", {"cpu/job/memory.limit_in_bytes": 2**20}, MACHINE),
        ("4:memory:/job\n", {"memory/job/memory.limit_in_bytes": UNLIMITED}, MACHINE),
        ("0::/job\n", {"job/memory.max": "max"}, MACHINE),
        ("0::/job\n", {}, MACHINE),
    ],
)  # fmt: skip
def test_the_smallest_limit_counts(groups, own, limits, expected):
    assert available_memory(*groups(own, **limits))[0] == expected


def test_without_control_groups_the_machine_counts(tmp_path):
    assert available_memory(tmp_path, tmp_path / "none") == (MACHINE, "this machine has")


def test_a_run_beyond_its_control_group_is_refused(groups, monkeypatch):
    """40 MB of draws, in a group of 32 MiB on a machine with more."""
    from gadabout.driver import limits

    where, own = groups("0::/job\n", **{"job/memory.max": 2**25})
    monkeypatch.setattr(limits, "GROUPS", where)
    monkeypatch.setattr(limits, "OWN_GROUPS", own)
    check_memory(2**20, 32, "32 things")
    with pytest.raises(MemoryError, match=r"33 things need 0.0 GiB of memory, its control group allows 0.0: use fewer"):
        check_memory(2**20, 33, "33 things")
    call = {"num_chains": 2, "num_warmup": 10, "num_draws": 250_000, "progress": False}
    with pytest.raises(
        MemoryError, match=r"num_draws = 250,000 draws need .*, its control group allows .*use thinning"
    ):
        gad.sample(lambda x: -0.5 * (x**2).sum(), np.zeros(10), sampler=gad.rwm(), **call)
