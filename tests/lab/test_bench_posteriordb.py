"""`gadabout bench posteriordb` on a folder of posteriors that are written here, with reference draws of known laws."""

import json
import zipfile

import numpy as np
import pytest
from typer.testing import CliRunner

from gadabout.cli.app import app
from gadabout.lab.peers.posteriordb import NOT_RUN, compared, runs

NORMAL = """
import jax.numpy as jnp
import gadabout as gad

def model(data):
    def log_density(v):
        return -0.5 * jnp.sum((v["theta"] - jnp.asarray(data["y"])) ** 2) - 0.5 * (v["mu"] / 2) ** 2
    return gad.Model(log_density, {"mu": 0.0, "theta": jnp.zeros(2)})
"""
BROKEN = "def model(data): raise ValueError('no such data')"
PYMC = """
import pymc as pm

def model(data):
    with pm.Model() as made:
        pm.Normal("mu", 0, 2)
        pm.Normal("theta", data["y"], 1, shape=2)
    return made
"""
Y = [1.0, -3.0]


def zipped(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(path.name.removesuffix(".zip"), json.dumps(value))


def written(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def reference(shift=0.0, extra=()):
    rng = np.random.default_rng(0)
    draw = lambda mean, sd: list(rng.normal(mean, sd, 1_000))
    names = {"mu": (shift, 2), "theta[1]": (Y[0], 1), "theta[2]": (Y[1], 1), **dict.fromkeys(extra, (0, 1))}
    return [{name: draw(*law) for name, law in names.items()} for _ in range(10)]


@pytest.fixture
def checkout(tmp_path):
    root = tmp_path / "posteriordb" / "posterior_database"
    zipped(root / "data/data/pair.json.zip", {"y": Y})
    posteriors = {"good": ("normal", reference(extra=["log_sd"])), "shifted": ("normal", reference(0.5)),
                  "failing": ("broken", reference()), "without": ("normal", None)}  # fmt: skip
    for name, (model, draws) in posteriors.items():
        own = {"name": name, "model_name": model, "data_name": "pair", "reference_posterior_name": draws and name}
        written(root / f"posteriors/{name}.json", own)
        if draws:
            zipped(root / f"reference_posteriors/draws/draws/{name}.json.zip", draws)
    for model in ("normal", "broken"):
        implementations = {"stan": {"model_code": f"models/stan/{model}.stan"}}
        written(root / f"models/info/{model}.info.json", {"name": model, "model_implementations": implementations})
        written(root / f"models/stan/{model}.stan", "no Stan program")
    written(tmp_path / "own/normal.py", NORMAL)
    written(tmp_path / "own/broken.py", BROKEN)
    return tmp_path


def test_the_table_says_which_posteriors_are_right(checkout):
    file = checkout / "rows.jsonl"
    words = [
        "bench",
        "posteriordb",
        str(checkout / "posteriordb"),
        "--models",
        str(checkout / "own"),
        "--json",
        str(file),
    ]
    ran = CliRunner().invoke(app, words, env={"COLUMNS": "140"})
    assert ran.exit_code == 0, ran.output
    lines = {line.split()[1]: line for line in ran.output.splitlines() if line.startswith("│")}
    assert "right" in lines["good"]
    assert "wrong without a word" in lines["shifted"]
    assert "not run" in lines["failing"]
    assert "ValueError: no such data" in lines["failing"]
    assert all(heading in ran.output for heading in ("posterior", "n", "right or not", "q", "seconds"))
    assert "2 of 3 posteriors with reference draws were run; 1 are right" in ran.output
    rows = {row["posterior"]: row for row in map(json.loads, file.read_text().splitlines())}
    assert rows.keys() == {"good", "shifted"}  # what was not run is tried again
    good = rows["good"]
    assert (good["n"], good["outcome"], good["missing"], good["by"]) == (3, "right", ["log_sd"], "yours")
    assert good["q"] > 1_000
    assert good["seconds"] > 0
    assert [name.split("[")[0] for name in rows["shifted"]["wrong"]] == ["mu"]


def test_rows_that_were_made_are_kept_and_others_made_again(checkout):
    file, folder, own = checkout / "rows.jsonl", checkout / "posteriordb" / "posterior_database", checkout / "own"
    first = list(runs(folder, (), own, file=file))
    assert [row["outcome"] == NOT_RUN for row in first] == [True, False, False]
    written(own / "broken.py", NORMAL)
    again = list(runs(folder, (), own, file=file))
    assert again[1:] == first[1:]
    assert again[0]["outcome"] == "right"
    assert [row["posterior"] for row in runs(folder, ["good"], own, seed=1, file=file)] == ["good"]
    assert len(file.read_text().splitlines()) == 4


def test_without_a_stan_engine_the_pymc_file_is_taken(checkout):
    pytest.importorskip("pymc", reason="pip install 'gadabout[pymc]'")
    root = checkout / "posteriordb" / "posterior_database"
    codes = {"pymc": {"model_code": "models/pymc/normal.py"}}
    written(root / "models/info/normal.info.json", {"name": "normal", "model_implementations": codes})
    written(root / "models/pymc/normal.py", PYMC)
    (row,) = runs(root, ["good"])
    assert (row["by"], row["outcome"], row["n"]) == ("pymc", "right", 3)


def test_what_is_no_checkout_is_refused(checkout, tmp_path):
    with pytest.raises(FileNotFoundError, match="has no posterior_database/posteriors; name a checkout"):
        list(runs(tmp_path / "own"))
    with pytest.raises(ValueError, match=r"there is no posterior 'nothing' in .*; there are failing, good"):
        list(runs(checkout / "posteriordb", ["nothing"]))
    with pytest.raises(ValueError, match="without has no reference draws"):
        list(runs(checkout / "posteriordb", ["without"]))
    ran = CliRunner().invoke(app, ["bench", "posteriordb", str(tmp_path / "nowhere")])
    assert ran.exit_code != 0


def test_a_result_without_reference_draws_is_refused():
    import xarray as xr

    tree = xr.DataTree.from_dict({"posterior": xr.Dataset({"x": (("chain", "draw"), np.zeros((2, 4)))})})
    with pytest.raises(ValueError, match=r"no variable of the model has reference draws; these have: mu, theta\[1\]"):
        compared(tree, reference())


def test_a_model_that_was_edited_is_run_again(checkout):
    file, folder, own = checkout / "rows.jsonl", checkout / "posteriordb", checkout / "own"
    (first,) = runs(folder, ["good"], own, file=file)
    written(own / "normal.py", BROKEN)
    (edited,) = runs(folder, ["good"], own, file=file)
    assert (first["outcome"], edited["outcome"]) == ("right", NOT_RUN)
    written(own / "normal.py", NORMAL)
    assert list(runs(folder, ["good"], own, file=file)) == [first]
