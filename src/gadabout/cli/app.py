"""The application: its commands, and `--version`."""

from importlib.metadata import version
from typing import Annotated

import typer

from gadabout.cli.bench import bench
from gadabout.cli.errors import OneLineErrors
from gadabout.cli.laboratory import reproduce, verify
from gadabout.cli.listing import list_names
from gadabout.cli.runs import resume, sample
from gadabout.cli.stored import report, status

app = typer.Typer(
    cls=OneLineErrors,
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help fits narrow terminals, and does not show flags as if they took values
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("sample")(sample)
app.command("resume")(resume)
app.command("status")(status)
app.command("report")(report)
app.command("list")(list_names)
app.command("reproduce")(reproduce)
app.command("verify")(verify)
app.add_typer(bench, name="bench")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"gadabout {version('gadabout')}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Bayesian sampling by gradient-based adaptive Markov chain Monte Carlo."""
    if context.invoked_subcommand is None:
        print(context.get_help())
