"""Commands of `gadabout bench` that run the default on the built-in sets, and compute their true moments."""

from pathlib import Path
from statistics import geometric_mean
from typing import Annotated, Any

import typer

from gadabout.cli.errors import CliError, did_you_mean
from gadabout.cli.measurements import in_float64, measuring, show_table
from gadabout.cli.options import DataHome, RowsFile, Seeds, check_rows, number, seeds_of

PAPER = ("ripley", "neal", "german", "pima", "heart", "australian", "caravan")


def call(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET]…", help="Names of any set, see `gadabout list`; the hierarchical set if none."
        ),
    ] = None,
    peer: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A program, once for each: numpyro, blackjax, nutpie; all.")
    ] = None,
    seeds: Seeds = "1,2,3",
    json_file: RowsFile = None,
) -> None:
    """Seconds from the call to q = 1,000, compilation counted, beside NUTS of other programs with its defaults.

    Each run is a process of its own; its clock starts after imports and data. The packages come with `pip install
    "gadabout[peers]"`.
    """
    check_rows(json_file)
    numbers = seeds_of(seeds)
    in_float64()
    from gadabout.lab.peers import OURS
    from gadabout.lab.peers.from_call import NUTS, compare, ratios
    from gadabout.lab.peers.peer_samplers import choose
    from gadabout.targets.sets import SETS

    rows = []
    for name in targets or SETS["hierarchical"].builders:
        with measuring(f"processes on {name}"):
            names, _ = choose([OURS, *(peer or NUTS[1:])])
            rows += compare([name], names, numbers, json_file)
    columns = [
        *((key, f"{{{key}}}") for key in ("target", "peer")),
        ("seconds", "{seconds:.1f}"),
        ("q", "{q:,.0f}"),
        ("good runs", lambda row: f"{row['good']} of {len(row['runs'])}"),
    ]
    show_table("From the call to q = 1,000, medians of seeds", columns, rows, left=2)
    if found := ratios(rows):
        slower = ", ".join(name for name, ratio in found.items() if ratio < 1) or "none"
        mean = geometric_mean(found.values())
        print(f"the quickest other over the default, geometric mean {mean:.2f}; slower on: {slower}")


def gallery(
    names: Annotated[list[str] | None, typer.Argument(metavar="[PAGE]…", help="Pages, by name; all if none.")] = None,
    folder: Annotated[Path, typer.Option(metavar="DIR", help="Where the pages are.")] = Path("docs/gallery"),
    seeds: Seeds = "1,",
    kernel: Annotated[bool, typer.Option("--kernel", help="Beside them the default inside of NumPyro's MCMC.")] = False,
    json_file: RowsFile = None,
) -> None:
    """The models of the documentation's gallery: seconds of the default beside NumPyro's NUTS, compilation counted.

    Rules are those of `bench call`. The first seconds are of 1,000 draws of each chain, the second those to q = 1,000.
    """
    check_rows(json_file)
    numbers = seeds_of(seeds)
    from gadabout.lab.peers.gallery import LIMIT, compare, pages

    rows = []
    with measuring():
        chosen = pages(folder, names or ())
    for page in chosen:
        with measuring(f"processes on {page.stem}"):
            rows += compare(page, numbers, json_file, kernel=kernel)
    seconds = lambda row, key: f"> {LIMIT:.0f}" if row[key] >= LIMIT else f"{row[key]:.1f}"
    columns = [
        *((key, lambda row, key=key: str(row.get(key, ""))) for key in ("target", "n", "peer")),
        ("call", lambda row: seconds(row, "seconds")),
        ("q", "{q:,.0f}"),
        ("R-hat", lambda row: f"{row['rhat']:.3f}" if "rhat" in row else ""),
        ("to 1,000", lambda row: seconds(row, "wanted")),
        ("good runs", lambda row: f"{row['good']} of {len(row['runs'])}"),
        ("apart", lambda row: "" if row["apart"] is None else f"{row['apart']:.1f}"),
        ("findings", lambda row: ", ".join(row.get("findings", ()))),
    ]
    show_table("Seconds of a call of 1,000 draws a chain, and to q = 1,000", columns, rows, whole=3)


def regret(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET]…",
            help="Names of `gadabout list`; the seven regressions, the wild and the hierarchical set if none.",
        ),
    ] = None,
    seeds: Seeds = "1",
    draws: Annotated[int, number("--draws", 100, "Draws of a chain.")] = 1000,
    data_home: DataHome = None,
    json_file: RowsFile = None,
) -> None:
    """Each move forced on each posterior, beside the one that the default chooses, by q per gradient.

    q is the smallest ESS of a coordinate or its square. Of draws alone: warm-up is left out.
    """  # fmt: skip
    check_rows(json_file)
    numbers = seeds_of(seeds)
    in_float64()
    from gadabout import targets as built_in
    from gadabout.lab.peers.regret import regrets, rows
    from gadabout.targets.sets import SETS

    made = []
    for name in targets or (*PAPER, *SETS["wild"].builders, *SETS["hierarchical"].builders):
        with measuring(f"each move on {name}"):
            made += rows({name: built_in.model(name, data_home)}, numbers, draws, json_file)
    found = regrets(made)
    columns = [
        *((key, f"{{{key}}}") for key in ("target", "seed", "chosen", "best")),
        ("q per 1,000 gradients", lambda row: f"{1000 * row['worth']:.2f}"),
        ("share of the best", "{share:.2f}"),
    ]
    show_table("The default's choice beside each move forced", columns, found, left=4)
    shares = [row["share"] for row in found]
    print(f"geometric mean {geometric_mean(shares):.2f}, least {min(shares):.2f}")


def constants(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]…", help="Modules, as choose, or constants, as choose.ERRORS; all if none."),
    ] = None,
    target: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A posterior of any set, once for each; twelve if none.")
    ] = None,
    seeds: Seeds = "1",
    json_file: RowsFile = None,
) -> None:
    """The default's constants, each halved and doubled: which change draws, ESS per gradient, or what is right.

    Every change runs in a process that imports a copy of the package.
    """
    check_rows(json_file)
    numbers = seeds_of(seeds)
    from gadabout.lab.peers.constants import TARGETS, rows, summary
    from gadabout.lab.peers.constants import constants as known

    chosen = [each for each in known() if not names or {each, each.partition(".")[0]} & set(names)]
    for name in names or ():
        if not any(name in (each, each.partition(".")[0]) for each in known()):
            raise CliError(f"{name}: no module of the default, and none of its constants; see gadabout/ensemble")
    with measuring("constants, halved and doubled"):
        found = summary(list(rows(chosen, target or TARGETS, numbers, json_file)))
    columns = [
        ("constant", "{constant}"),
        ("value", lambda row: f"{row['value'] / row['factor']:.6g}"),
        ("instead", "{value:.6g}"),
        ("other draws", "{other} of {runs}"),
        ("ESS per gradient", lambda row: "" if row["ratio"] is None else f"{row['ratio']:.2f}"),
        ("not right", lambda row: ", ".join(row["not_right"])),
    ]
    show_table("The default's constants, halved and doubled", columns, found)


def truth(
    targets: Annotated[
        list[str], typer.Argument(metavar="TARGET…", help="Names of any set, see `gadabout list`; `all` for all.")
    ],
    seed: Annotated[int, number("--seed", 0, "Seed.", 2**31)] = 0,
    draws: Annotated[
        int | None,
        number("--draws", 100, "Draws: exact ones, or of each chain of NUTS.", default="the target's own"),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the files go.", show_default="the package")
    ] = None,
) -> None:
    """True means, variances and quantiles of built-in targets, from exact draws or two long NUTS runs that agree."""
    in_float64()
    from gadabout.cli.progress import working
    from gadabout.lab.peers.truth import truth as measure
    from gadabout.lab.peers.truth import write
    from gadabout.targets.sets import NAMES

    documents, failed = [], []
    for name in NAMES if targets == ["all"] else targets:
        try:
            with working(f"truth of {name}", True):
                document = measure(name, seed, draws)
            write(document, folder)
            documents.append(document)
        except ValueError as error:
            raise CliError(str(error)) from error
        except RuntimeError as error:
            failed.append(str(error))
    if documents:
        _show_truths(documents)
    if failed:
        raise CliError("; ".join(failed))


def _show_truths(documents: list[dict[str, Any]]) -> None:
    variables = lambda row: row["variables"].values()
    of_mean = lambda row: max(float((v["mean_error"] / v["variance"] ** 0.5).max()) for v in variables(row))
    of_variance = lambda row: max(float((v["variance_error"] / v["variance"]).max()) for v in variables(row))
    known = lambda row, name, form: "" if row.get(name) is None else f"{row[name]:{form}}"
    columns = [
        ("target", "{target}"),
        ("method", "{method}"),
        ("draws", lambda row: f"{row['num_draws'] * row.get('num_chains', 1):,}"),
        ("error of mean, sd", lambda row: f"{of_mean(row):.4f}"),
        ("of variance", lambda row: f"{of_variance(row):.4f}"),
        ("apart", lambda row: known(row, "largest_difference", ".1f")),
        ("R-hat", lambda row: known(row, "rhat_max", ".4f")),
    ]
    title = "Largest standard errors, as shares of the standard deviation and of the variance"
    show_table(title, columns, documents)


def wild(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TARGET]…", help="Names of any set, see `gadabout list`; a whole set if none."),
    ] = None,
    set_name: Annotated[
        str | None,
        typer.Option("--set", metavar="NAME", help="wild, hierarchical, modes or curved.", show_default="wild"),
    ] = None,
    seeds: Seeds = "3",
    json_file: RowsFile = None,
) -> None:
    """The default on a built-in set: right by its truth, flagged, or wrong without a word.

    Right is within 5 combined standard errors of the truth in every coordinate, with R-hat of at most max(1.01, 1 + 3 ·
    chains/ESS) and an ESS of at least 400; below that a run has too few draws. Flagged is what is neither, where
    findings name every coordinate that is wrong.
    """
    check_rows(json_file)
    if targets and set_name is not None:
        raise CliError("--set runs a whole set; leave it out, or name no targets")
    numbers = seeds_of(seeds)
    in_float64()
    from gadabout.lab.peers.wild import runs, summary
    from gadabout.targets.sets import SETS

    chosen = SETS.get(set_name or "wild")
    if chosen is None:
        raise CliError(f"--set: there is no set {set_name!r}; {did_you_mean(set_name or '', SETS)}")
    rows = []
    for name in targets or chosen.builders:
        with measuring(f"the default on {name}"):
            rows += runs([name], numbers, json_file)
    columns = [
        ("target", "{target}"),
        ("outcome", lambda row: ", ".join(f"{outcome} {count}" for outcome, count in row["outcomes"].items())),
        ("off by", lambda row: "" if row["off"] is None else f"{row['off']:.1f}"),
        ("R-hat", "{rhat:.3f}"),
        ("ESS", "{ess:,.0f}"),
        ("findings", lambda row: ", ".join(row["findings"])),
        ("seconds", "{seconds:.1f}"),
    ]
    title = f"sample() with default arguments, seeds {', '.join(map(str, numbers))}: the worst of each"
    show_table(title, columns, summary(rows), left=2)


def posteriordb(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A checkout of posteriordb.")],
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]…", help="Posteriors; all if none.")] = None,
    own: Annotated[
        Path | None,
        typer.Option("--models", metavar="DIR", help="Files MODEL.py, whose model(data) returns what sample() takes."),
    ] = None,
    seed: Annotated[int, number("--seed", 0, "Seed.", 2**31)] = 0,
    json_file: RowsFile = None,
) -> None:
    """The default on posteriors of posteriordb beside their reference draws: right or not, q, seconds.

    Models are files of yours, the Stan programs where an engine is there, else the PyMC files. Right is as of `bench
    wild`. q is the smallest ESS of a coordinate or its square; seconds go from the call to the result.
    """
    check_rows(json_file)
    in_float64()
    from gadabout.lab.peers.posteriordb import NOT_RUN, runs

    with measuring(f"the default on {folder}"):
        rows = list(runs(folder, names or (), own, seed, json_file))
    made = [row for row in rows if row["outcome"] != NOT_RUN]
    columns = [
        ("posterior", "{posterior}"),
        ("n", lambda row: f"{row['n']:,}" if "n" in row else ""),
        ("right or not", "{outcome}"),
        ("q", lambda row: f"{row['q']:,.0f}" if "q" in row else ""),
        ("seconds", lambda row: f"{row['seconds']:.1f}" if "seconds" in row else ""),
        ("model by, or why not", lambda row: row.get("by") or row["why"]),
    ]
    show_table(f"sample() with default arguments, seed {seed}", columns, rows, left=1)
    right = sum(row["outcome"] == "right" for row in made)
    print(f"{len(made)} of {len(rows)} posteriors with reference draws were run; {right} are right")
