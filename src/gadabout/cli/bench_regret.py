"""`gadabout bench regret`: what the default's choice of a move costs."""

from statistics import geometric_mean
from typing import Annotated

import typer

from gadabout.cli.bench_wild import seeds_of
from gadabout.cli.counts import whole
from gadabout.cli.destinations import RowsFile, check_file
from gadabout.cli.errors import CliError
from gadabout.cli.measurements import DataHome, in_float64, show_table

PAPER = ("ripley", "neal", "german", "pima", "heart", "australian", "caravan")


def regret(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET]…",
            help="Names of `gadabout list`; the seven regressions, the wild and the hierarchical set if none.",
        ),
    ] = None,
    seeds: Annotated[str, typer.Option(metavar="K|A,B,…", help="How many seeds from 0 on, or which.")] = "1",
    draws: Annotated[int, typer.Option(parser=whole("--draws", 100), metavar="N", help="Draws of a chain.")] = 1000,
    data_home: DataHome = None,
    json_file: RowsFile = None,
) -> None:
    """Each move forced on each posterior, beside the one that the default chooses, by q per gradient.

    q is the smallest ESS of a coordinate or its square. Of draws alone: warm-up is left out.
    """  # fmt: skip
    if json_file is not None:
        check_file("--json", json_file)
    numbers = seeds_of(seeds)
    in_float64(None)
    from gadabout import targets as built_in
    from gadabout.cli.progress import working
    from gadabout.lab.peers.regret import regrets, rows
    from gadabout.targets.sets import SETS

    made = []
    for name in targets or (*PAPER, *SETS["wild"].builders, *SETS["hierarchical"].builders):
        try:
            with working(f"each move on {name}", True):
                made += rows({name: built_in.model(name, data_home)}, numbers, draws, json_file)
        except (ValueError, RuntimeError, built_in.DataError) as error:
            raise CliError(str(error)) from error
    found = regrets(made)
    cells = [
        (
            *(str(row[key]) for key in ("target", "seed", "chosen", "best")),
            f"{1000 * row['worth']:.2f}",
            f"{row['share']:.2f}",
        )
        for row in found
    ]
    headings = ("target", "seed", "chosen", "best", "q per 1,000 gradients", "share of the best")
    show_table("The default's choice beside each move forced", headings, cells, left=4)
    shares = [row["share"] for row in found]
    print(f"geometric mean {geometric_mean(shares):.2f}, least {min(shares):.2f}")
