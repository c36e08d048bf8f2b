"""`gadabout resume`: a stored run goes on."""

from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from gadabout.cli.counts import whole
from gadabout.cli.destinations import check_destinations
from gadabout.cli.errors import CliError


def resume(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The store of the run, run.zarr.")],
    draws: Annotated[
        int | None,
        typer.Option(
            parser=whole("--draws", 1), metavar="N", help="Draws of each chain in all.", show_default="the run's own"
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="file.py:function", help="The run's target again, where it is a file of yours."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The run's data again, .npz or .json.", show_default="the run's own file"),
    ] = None,
    data_home: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of data files.", show_default="the run's own")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="PATH", help="Save a figure: .png, .pdf or .svg.")] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Save the figures of the summary as JSON.")
    ] = None,
    progress: Annotated[bool, typer.Option(help="Show progress on stderr.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Go on with a run that was stopped or killed, to the draws it would have made, or to more.

    A target that is a file of yours is opened only if you name it again.
    """
    check_destinations(None, plot, json_file)
    import jax

    from gadabout.api.stored import manifest_of

    try:
        manifest = manifest_of(path)
    except (OSError, ValueError) as error:
        raise CliError(str(error)) from error
    jax.config.update("jax_enable_x64", manifest.float_type == "float64")
    import gadabout
    from gadabout.cache import keep_for_commands
    from gadabout.cli.running import Wanted, ended
    from gadabout.cli.targets import resolve

    keep_for_commands()

    origin = manifest.model["origin"]
    name = target or origin.get("target")
    if name is None:
        raise CliError(f"PATH: {str(path)!r} was not made by `gadabout sample`: go on with it by gadabout.resume")
    is_file = ":" in name or name.endswith(".py")
    if is_file and target is None:
        raise CliError(f"--target: the run is of {name}, which is run only if you name it again: --target {name}")
    home = data_home or (Path(origin["data_home"]) if "data_home" in origin else None)
    rows = data or (Path(origin["data"]) if "data" in origin else None)
    one = sum(int(np.prod(shape)) for shape in manifest.layout["shapes"]) if is_file and not origin else None
    model, _ = resolve(name, origin.get("dim", one), None, manifest.settings["num_chains"], home, rows)
    run = partial(gadabout.resume, path, model, num_draws=draws)
    ended(run, model.name, Wanted(path, json_file, plot, progress, quiet))
