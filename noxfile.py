"""Checks in environments of their own: `nox` runs all, `nox -s wheel` one, `nox -s oldest -- tests/unit` other tests.

The versions that were found to work stand in CONTRIBUTING.md.
"""

import shutil
from pathlib import Path

import nox

nox.options.default_venv_backend = "uv|venv"
nox.options.sessions = ["oldest", "newest", "wheel", "docs"]

SMALL = ["test_public_names", "test_sample", "test_store", "test_results_kept", "test_report", "test_notebook"]
SMALL_TESTS = [f"tests/unit/{name}.py" for name in SMALL]


@nox.session(python="3.12")
def oldest(session):
    """The oldest of all packages that we say will do, JAX among them; what they deprecate or warn of is their own."""
    session.install("uv")
    session.run("uv", "pip", "install", "--quiet", "--resolution", "lowest-direct", "--editable", ".[cli,dev]")
    versions(session)
    session.run("python", "-m", "pytest", "-W", "default", *(session.posargs or SMALL_TESTS))


@nox.session
def newest(session):
    """The newest of all packages."""
    session.install("--quiet", "--upgrade", "--editable", ".[cli,dev]")
    versions(session)
    session.run("python", "-m", "pytest", *(session.posargs or SMALL_TESTS))


@nox.session
def wheel(session):
    """Sdist and, from it, wheel; it alone passes unit and laboratory tests in a folder that holds no more."""
    folder = Path(session.create_tmp())
    for old in ("dist", "tests"):
        shutil.rmtree(folder / old, ignore_errors=True)
    session.install("--quiet", "build")
    session.run("python", "-m", "build", "--outdir", str(folder / "dist"), silent=True)
    (built,) = (folder / "dist").glob("*.whl")
    session.install("--quiet", f"gadabout[cli,dev] @ {built.resolve().as_uri()}")
    shutil.copytree("tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy("pyproject.toml", folder)
    session.chdir(folder)
    session.run("python", "-c", "import gadabout, sys; assert gadabout.__file__.startswith(sys.prefix), gadabout")
    session.run("python", "-m", "pytest", *(session.posargs or ["tests/unit", "tests/lab"]))


@nox.session
def docs(session):
    """The pages, without a warning; the tests run their cells."""
    session.install("--quiet", "--editable", ".[cli,docs]")
    build = ("--quiet", "--fail-on-warning", "--keep-going", "-D", "nb_execution_mode=off")
    session.run("sphinx-build", *build, "docs", str(Path(session.create_tmp()) / "html"))


def versions(session):
    """Prints which versions the tests are about to meet."""
    names = "jax", "jaxlib", "equinox", "blackjax", "xarray", "zarr", "arviz-base", "arviz-stats", "numpy", "scipy"
    told = (
        "import sys; from importlib.metadata import version; print(sys.version.split()[0], {n: version(n) for n in %r})"
    )
    session.run("python", "-c", told % (names,))
