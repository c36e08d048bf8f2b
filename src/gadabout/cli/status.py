"""`gadabout status`: how far a stored run is, seen from outside."""

from pathlib import Path
from typing import Annotated

import typer

from gadabout.cli.destinations import JsonFile, check_json, save_json
from gadabout.cli.errors import CliError
from gadabout.files import STANDARD_OUTPUT


def status(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The store of the run, run.zarr.")],
    json_file: JsonFile = None,
) -> None:
    """Tell how far a run is: phase, progress, R-hat and ESS of the draws that are stored, time left.

    It may run while the run itself does, in another terminal.
    """
    if json_file is not None:
        check_json(json_file)
    from gadabout.api.status import status_of
    from gadabout.cli.progress import duration

    try:
        found = status_of(path)
    except (OSError, ValueError) as error:
        raise CliError(str(error)) from error
    if json_file is not None:
        save_json(json_file, vars(found))
    if json_file is not None and str(json_file) == STANDARD_OUTPUT:
        return
    stopped = "stopped: its process is gone" if found.ending == "running" else found.ending
    state = "running" if found.running else stopped
    print(f"{path}: {found.model}, {found.sampler}, {found.num_chains} chains, seed {found.seed}: {state}")
    if found.total:
        left = f", {duration(found.seconds_left)} left" if found.running and found.done < found.total else ""
        print(f"{found.stage}: {found.done:,} of {found.total:,} iterations, {duration(found.seconds)} so far{left}")
    print(f"{found.draws:,} of {found.num_draws:,} draws of each chain are stored")
    if found.rhat_max is not None:
        print(f"so far: max R-hat {found.rhat_max:.3f}, min ESS {found.ess_min:,.0f}")
    if not found.running and found.ending in ("running", "interrupted", "failed"):
        print(f"it goes on by `gadabout resume {path}`")
