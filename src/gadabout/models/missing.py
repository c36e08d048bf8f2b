"""Optional libraries: one error for those that are not installed, which says what to install."""

from importlib.util import find_spec


def needs(library: str, extra: str, what: str) -> None:
    """Raises ImportError if a library is not installed."""
    if not is_there(library):
        raise ImportError(f"{what} needs {library}, which is not installed: pip install 'gadabout[{extra}]'")


def is_there(library: str) -> bool:
    """Whether a library can be imported."""
    try:
        return find_spec(library) is not None
    except (ImportError, ValueError):  # None in sys.modules
        return False
