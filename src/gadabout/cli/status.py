"""`gadabout status`: how far a stored run is, seen from outside."""

import shlex
import warnings
from pathlib import Path
from typing import Annotated

import typer

from gadabout.cli.destinations import JsonFile, check_json, save_json
from gadabout.cli.errors import CliError, printable
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
    from gadabout.api.status import STOPPED, status_of
    from gadabout.cli.progress import duration

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
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
    lines = [f"{path}: {found.model}, {found.sampler}, {found.num_chains} chains, seed {found.seed}: {state}"]
    if found.total:
        left = f", {duration(found.seconds_left)} left" if found.running and found.done < found.total else ""
        lines.append(
            f"{found.stage}: {found.done:,} of {found.total:,} iterations, {duration(found.seconds)} so far{left}"
        )
    lines.append(f"{found.draws:,} of {found.num_draws:,} draws of each chain are stored")
    if found.rhat_max is not None:
        lines.append(f"so far: max R-hat {found.rhat_max:.3f}, min ESS {found.ess_min:,.0f}")
    lines += [f"warning: {warning.message}" for warning in caught]
    if not found.running and found.ending in STOPPED:
        lines.append(f"it cannot go on: {found.obstacle}" if found.obstacle else _how_to_go_on(path))
    for line in lines:
        print(printable(line))


def _how_to_go_on(path: Path) -> str:
    """The command, or the call, by which a run goes on."""
    from gadabout.api.stored import manifest_of

    manifest = manifest_of(path)
    name, again = manifest.model["origin"].get("target"), manifest.sampler is not None
    if name is None or not again:
        arguments = [repr(str(path)), "logdensity", *([] if again else ["sampler"])]
        return f"it goes on by gadabout.resume({', '.join(arguments)}): no store can hold what is to be passed again"
    is_file = ":" in name or name.endswith(".py")
    target = f" --target {shlex.quote(name)}" if is_file else ""
    return f"it goes on by `gadabout resume {shlex.quote(str(path))}{target}`"
