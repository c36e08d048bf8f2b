"""The page: a run in memory or in a store, written as one self-contained file."""

import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gadabout.checks import shown
from gadabout.files import check_replaceable, write_text
from gadabout.model import AbstractModel
from gadabout.store import StoreError
from gadabout.store.arrays import HIDDEN, opened
from gadabout.store.integrity import check_store
from gadabout.store.runs import manifest_of

if TYPE_CHECKING:
    import xarray as xr

NAMELESS = AbstractModel.name
"""Name of a model to which the user gave none."""
MISSING = 'a report needs {}: pip install "gadabout[cli]"'


def report(run: "xr.DataTree | str | os.PathLike", out: str | os.PathLike | None = None, *, title: str = "") -> Path:
    """Writes a run as one page of HTML with tables, pictures, warnings and costs, and returns its path.

    The page needs no other file and no network. Of a long run it uses a bounded part, and states the bounds.

    Args:
        run: a result of `sample`, or the path of a stored run, finished or not, or of a file that xarray opens.
        out: path of the page, run.html beside a stored run.zarr by default. A regular file of that name is replaced.
        title: title of the page; by default the names of model and sampler.

    Raises:
        TypeError: if `run` is neither a tree nor a path, or `out` is missing for a tree.
        FileNotFoundError, StoreError: if there is no run, or its draws are missing or damaged.
        FileExistsError: if `out` exists and is not a regular file.
        OSError: if the page cannot be written.
        ImportError: if matplotlib or Jinja is not installed.
    """
    import xarray as xr

    if not isinstance(run, str | os.PathLike | xr.DataTree):
        raise TypeError(f"run must be a result of gadabout.sample, or the path of a stored run, got {shown(run)}")
    if isinstance(run, xr.DataTree):
        if out is None:
            raise TypeError("out must be the name of the page, such as 'run.html', for a result that is in memory")
        path = Path(out)
        check_replaceable(path)
        tree, facts = run, {str(name): value for name, value in run.attrs.items()}
    else:
        path = Path(run).with_suffix(".html") if out is None else Path(out)
        check_replaceable(path)
        tree, facts = read(Path(run))
    write_text(path, html(gather(tree, facts), facts, title))
    return path


def read(path: Path) -> tuple["xr.DataTree", dict[str, Any]]:
    """A stored run and its facts: its attributes, completed by the settings in its manifest if it was killed."""
    import xarray as xr

    if not path.exists():
        raise FileNotFoundError(f"there is no run at {str(path)!r}; pass the name that `out` had")
    if not (path / HIDDEN).is_dir():
        try:
            tree = xr.open_datatree(path)
        except (OSError, ValueError, KeyError) as error:
            raise StoreError(
                f"{str(path)!r} is nothing that xarray opens as a tree: {' '.join(str(error).split())}"
            ) from error
        return tree, {str(name): _plain(value) for name, value in tree.attrs.items()}
    manifest = manifest_of(path)
    check_store(path, manifest)
    tree = opened(path)
    asked = {name: value for name, value in manifest.settings.items() if name != "record"}
    known = {
        "sampler": manifest.plan["name"],
        "sampler_settings": manifest.plan.get("settings", {}),
        "seed": manifest.seed,
    }
    known |= {"ending": "running", "inference_library_version": manifest.versions["gadabout"]}
    name = {"model": manifest.model["name"], "float_type": manifest.float_type}
    return tree, asked | known | name | {str(key): value for key, value in tree.attrs.items()}


def gather(tree: "xr.DataTree", facts: Mapping[str, Any]) -> dict[str, Any]:
    """Contents of the page; raises ImportError if matplotlib is not installed."""
    try:
        from gadabout.reporting.contents import contents
    except ImportError as error:
        raise ImportError(MISSING.format("matplotlib")) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # for example of letters that the font lacks
        return contents(tree, facts)


def html(things: Mapping[str, Any], facts: Mapping[str, Any], title: str = "") -> str:
    """The page as text; raises ImportError if Jinja is not installed."""
    try:
        import jinja2
    except ImportError as error:
        raise ImportError(MISSING.format("Jinja")) from error
    loader = jinja2.PackageLoader("gadabout.reporting", ".")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    named = [str(facts[key]) for key in ("model", "sampler") if facts.get(key) and facts[key] != NAMELESS]
    name = title or " · ".join(named) or "A run"
    return environment.get_template("page.html").render(title=name, **things)


def _plain(value: Any) -> Any:
    """An attribute, decoded if it is a JSON list or dictionary: the file format stores numbers and text only."""
    if not isinstance(value, str) or value[:1] not in "[{":
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
