"""The command line `gadabout`. Importing this needs none of the extra `cli`; running it does."""

import sys
from importlib.util import find_spec


def main() -> None:
    """The console script: the application, or one line that says how to install what it needs."""
    missing = [package for package in ("typer", "rich") if find_spec(package) is None]
    if missing:
        print(
            f'gadabout: error: the command line needs {" and ".join(missing)}: pip install "gadabout[cli]"',
            file=sys.stderr,
        )
        sys.exit(2)
    from gadabout.cli.app import app

    app(prog_name="gadabout")
