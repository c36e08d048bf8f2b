"""The command line `gadabout`. Running it needs the extra `cli`; importing this module does not."""

import sys
from importlib.util import find_spec


def main() -> None:
    """The console script: runs the application, or prints how to install missing packages and exits with status 2."""
    missing = [package for package in ("typer", "rich") if find_spec(package) is None]
    if missing:
        print(
            f'gadabout: error: the command line needs {" and ".join(missing)}: pip install "gadabout[cli]"',
            file=sys.stderr,
        )
        sys.exit(2)
    from gadabout.cli.app import app

    app(prog_name="gadabout")
