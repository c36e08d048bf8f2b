"""How much memory a process may take, and a refusal of what needs more."""

import os
from pathlib import Path

GROUPS, OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
LIMITS = {"": "memory.max", "memory": "memory.limit_in_bytes"}
"""the file of a control group that holds its limit, by controller; version 2 has one hierarchy, without a name"""


def available_memory(groups: Path | None = None, own: Path | None = None) -> tuple[int, str]:
    """Bytes that this process may take at most, and what sets that limit, in words.

    That is the memory of the machine, or less by a control group of Linux, of version 1 or 2, which the process, or
    one that holds its own, belongs to. Containers and batch queues set such limits.

    Args:
        groups: where control groups are mounted, `GROUPS` by default.
        own: the file that names those of the process, `OWN_GROUPS` by default.
    """
    groups, own = groups or GROUPS, own or OWN_GROUPS
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = min((found for file in _limit_files(groups, own) if (found := _limit(file)) is not None), default=machine)
    return (limit, "its control group allows") if limit < machine else (machine, "this machine has")


def check_memory(each: int, count: int, what: str, remedy: str = "use fewer, or a diagonal factor") -> None:
    """Raises MemoryError where `count` things of `each` bytes need more memory than the process may take."""
    needed, (there, whose) = each * count, available_memory()
    if needed > there:
        raise MemoryError(f"{what} need {needed / 2**30:,.1f} GiB of memory, {whose} {there / 2**30:.1f}: {remedy}")


def _limit_files(groups: Path, own: Path) -> list[Path]:
    """The files with limits of the process's control groups, and of all that these are in."""
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    files = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for controller in set(controllers.split(",")) & LIMITS.keys():
            folder = groups / controller / path.strip("/")
            files += [each / LIMITS[controller] for each in (folder, *folder.parents) if each.is_relative_to(groups)]
    return files


def _limit(file: Path) -> int | None:
    """The number in a file; None where there is none, such as "max"."""
    try:
        return int(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
