"""`gadabout status` and `report`: progress of a stored run, from another process, and the run as a page of HTML."""

import shlex
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from gadabout.cli.errors import CliError, printable
from gadabout.cli.options import JsonFile, Store, check_file, check_json, save_json, writing
from gadabout.files import STANDARD_OUTPUT, write_text


def status(
    path: Store,
    json_file: JsonFile = None,
) -> None:
    """Tell how far a run is: phase, progress, R-hat and ESS of the draws that are stored, time left.

    It may run while the run itself does, in another terminal.
    """
    check_json(json_file)
    from gadabout.api.status import STOPPED, status_of
    from gadabout.cli.progress import duration

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = status_of(path)
        except (OSError, ValueError) as error:
            raise CliError(str(error)) from error
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
    """The command, or the Python call, that continues a run."""
    from gadabout.store.runs import manifest_of

    manifest = manifest_of(path)
    name, again = manifest.model["origin"].get("target"), manifest.sampler is not None
    if name is None or not again:
        arguments = [repr(str(path)), "logdensity", *([] if again else ["sampler"])]
        return f"it goes on by gadabout.resume({', '.join(arguments)}): no store can hold what is to be passed again"
    is_file = ":" in name or name.endswith(".py")
    target = f" --target {shlex.quote(name)}" if is_file else ""
    return f"it goes on by `gadabout resume {shlex.quote(str(path))}{target}`"


def report(
    path: Store,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="The page.", show_default="run.html beside run.zarr")
    ] = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="What to call the run.", show_default="its model")] = "",
    json_file: JsonFile = None,
) -> None:
    """Write a run as one page of HTML: tables, traces, ranks, what was learned, warnings, costs.

    The run may be finished, stopped or going on. The page needs no other file and no network.
    """
    if not path.name:
        raise CliError(f"PATH: {str(path)!r} is a folder, not a run; name the store, such as run.zarr")
    page = out or path.with_suffix(".html")
    check_file("--out", page)
    check_json(json_file)
    for module in ("jinja2", "matplotlib"):
        if find_spec(module) is None:
            raise CliError(f'report needs {module}, which is not installed: pip install "gadabout[cli]"')
    from gadabout.reporting.page import gather, html, read

    try:
        tree, facts = read(path)
    except (OSError, ValueError) as error:
        raise CliError(str(error)) from error
    things = gather(tree, facts)
    with writing(page):
        write_text(page, html(things, facts, title))
    if json_file is not None:
        from gadabout.reporting.contents import figures

        save_json(json_file, figures(things, facts))
    if json_file is not None and str(json_file) == STANDARD_OUTPUT:
        return
    print(f"report written to {page}")
