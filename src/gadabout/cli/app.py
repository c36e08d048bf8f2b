"""The application: its commands, and `--version`."""

from importlib.metadata import version
from typing import Annotated

import typer

from gadabout.cli.bench import bench
from gadabout.cli.errors import OneLineErrors
from gadabout.cli.reproduce import reproduce
from gadabout.cli.sample import sample

app = typer.Typer(
    cls=OneLineErrors,
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help keeps to narrow terminals, and flags do not look as if they took values
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("sample")(sample)
app.command("reproduce")(reproduce)
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


@app.command("list")
def list_names() -> None:
    """List targets and samplers, one line each."""
    from gadabout.algorithms import PYTHON_RECIPES, RECIPES
    from gadabout.targets import available

    samplers, of_objects = (
        {name: (recipe.__doc__ or "").strip().split("\n")[0] for name, recipe in recipes.items()}
        for recipes in (RECIPES, PYTHON_RECIPES)
    )
    for heading, entries in (
        ("targets", available()),
        ("samplers", samplers),
        ("samplers made of your own objects, in Python", of_objects),
    ):
        width = max(map(len, entries))
        print(f"{heading}:")
        for name, description in entries.items():
            print(f"  {name:<{width}}  {description}")
