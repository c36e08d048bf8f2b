"""Malformed commands: a status of 2, one line on stderr that names option, value and remedy, nothing written."""

import os
import sys

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from gadabout.algorithms import RECIPES
from gadabout.cli.app import app

DENSITIES = """
import math
import jax.numpy as jnp
import numpy as np

SCALE = 2.0

def normal(x):
    return -0.5 * jnp.sum(x**2)

def pair(x):
    return normal(x), 0

def table(x):
    return {"value": normal(x)}

def word(x):
    return "x"

def nothing(x):
    pass

def complex_one(x):
    return normal(x) + 1j

def truth(x):
    return normal(x) > 0

def vector(x):
    return x

def nan(x):
    return normal(x) * jnp.nan

def two(x, y):
    return normal(x)

def zero():
    return 0.0

def raising(x):
    raise RuntimeError("no density\\nat all")

def branching(x):
    return normal(x) if x[0] > 0 else 0.0

def numpys(x):
    return float(np.sum(np.asarray(x)))

def index(x):
    return x["a"]
"""
ARRAYS = {
    "words": np.array(["a"]),
    "deep": np.zeros((1, 1, 1)),
    "scalar": np.zeros(()),
    "empty": np.zeros(0),
    "nan": np.array([np.nan]),
    "infinite": np.array([[np.inf], [0.0]]),
    "complex": np.array([1j]),
    "truths": np.array([True]),
    "rows": np.zeros((3, 2)),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder of densities and starts, outside the working folder, that commands read and must not write to."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "d.py").write_text(DENSITIES)
    (folder / "broken.py").write_text("def normal(x:\n")
    (folder / "undefined.py").write_text("x = 1\nprint(undefined)\n")
    (folder / "exits.py").write_text("import sys\nsys.exit(3)\n")
    (folder / "d.txt").write_text(DENSITIES)
    (folder / "text.npy").write_text("1.0 2.0")
    (folder / "nothing.npy").write_text("")
    (folder / "there.json").write_text("{}")
    (folder / "there.zarr").mkdir()
    (folder / "link.json").symlink_to(folder / "there.json")
    (folder / "nowhere.json").symlink_to(folder / "gone.json")
    (folder / "link.zarr").symlink_to(folder / "gone.zarr")
    (folder / "link.png").symlink_to(folder / "gone.png")
    os.mkfifo(folder / "pipe.json")
    np.savez(folder / "several.npz", a=np.zeros(2))
    np.save(folder / "objects.npy", np.array([{}]), allow_pickle=True)
    for name, array in ARRAYS.items():
        np.save(folder / f"{name}.npy", array)
    return folder


@pytest.fixture(autouse=True)
def _own_folder_and_precision(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before, path = jax.config.jax_enable_x64, list(sys.path)
    yield
    jax.config.update("jax_enable_x64", before)
    sys.path[:] = path
    assert list(tmp_path.iterdir()) == []


def listing(folder):
    return {path.name: path.lstat().st_mtime_ns for path in folder.iterdir()}


def refused(arguments, words):
    """Runs a command; it must end with status 2 and one line that has all the words."""
    first, *rest = map(str, arguments)
    result = CliRunner().invoke(app, [first, *(["--no-progress"] if first == "sample" else []), *rest])
    told = f"{result.exit_code}, {result.output!r}, {result.exception!r}"
    assert result.exit_code == 2, told
    assert result.stdout == "", told
    assert result.stderr.startswith("gadabout: error: "), told
    assert result.stderr.count("\n") == 1, told
    assert len(result.stderr) < 700, told
    for word in words:
        assert word in result.stderr, f"{word!r} is not in {told}"


def sampled(function, *more):
    return ["sample", f"@/d.py:{function}", "--dim", "2", "--sampler", "gad-mala", *more]


DENSE = ["@/d.py:normal", "--sampler", "gad-mala"]


def started(name):
    return ["sample", "@/d.py:normal", "--init", f"@/{name}"]


COMMANDS = [
    (["smaple"], ["smaple", "sample"]),
    (["--bogus"], ["--bogus"]),
    (["sample", "--bogus"], ["--bogus"]),
    (["sample", "neal", "german"], ["german"]),
    (["sample", "breast-canser"], ["breast-canser", "breast-cancer"]),
    (["sample", ""], ["TARGET", "''"]),
    (["sample", "NEAL"], ["TARGET", "neal"]),
    (["sample", "neal", "--dim", "3"], ["--dim", "neal"]),
    (["sample", "neal", "--init", "@/rows.npy"], ["--init", "neal"]),
    (["sample", "neal", "--data-home"], ["--data-home"]),
    (["sample", "german", "--data-home", "@/there.json"], ["german", "there.json"]),
    # files of densities
    (["sample", "missing.py:f", "--dim", "2"], ["missing.py", "no file"]),
    (["sample", "@:f", "--dim", "2"], ["no file"]),
    (["sample", "@/d.py", "--dim", "2"], ["d.py", "file.py:function"]),
    (["sample", "@/d.py:", "--dim", "2"], ["file.py:function"]),
    (["sample", ":normal", "--dim", "2"], ["file.py:function"]),
    (["sample", "@/d.py:normol", "--dim", "2"], ["'normol'", "normal"]),
    (["sample", "@/d.py:SCALE", "--dim", "2"], ["SCALE", "float"]),
    (["sample", "@/d.txt:normal", "--dim", "2"], ["d.txt", ".py"]),
    (["sample", "@/broken.py:normal", "--dim", "2"], ["SyntaxError", "line 1"]),
    (["sample", "@/undefined.py:x", "--dim", "2"], ["NameError", "undefined", "line 2"]),
    (["sample", "@/exits.py:x", "--dim", "2"], ["exits.py", "SystemExit"]),
    (["sample", "@/d.py:normal"], ["neither", "--dim", "--init"]),
    (["sample", "@/d.py:normal", "--dim", "2", "--init", "@/rows.npy"], ["both", "--dim", "--init"]),
    # starts
    (started("gone.npy"), ["--init", "gone.npy", "numpy.save"]),
    (started(""), ["--init", "cannot be read"]),
    (started("text.npy"), ["--init", "text.npy", "numpy.save"]),
    (started("nothing.npy"), ["--init", "nothing.npy", "numpy.save"]),
    (started("several.npz"), ["--init", "several.npz", "archive"]),
    (started("objects.npy"), ["--init", "objects.npy"]),
    (started("words.npy"), ["--init", "real numbers"]),
    (started("complex.npy"), ["--init", "real numbers", "complex"]),
    (started("truths.npy"), ["--init", "real numbers", "bool"]),
    (started("deep.npy"), ["--init", "(1, 1, 1)", "(n,)"]),
    (started("scalar.npy"), ["--init", "()", "(n,)"]),
    (started("empty.npy"), ["--init", "(0,)", "(n,)"]),
    (started("nan.npy"), ["--init", "NaN"]),
    ([*started("infinite.npy"), "--chains", "2"], ["--init", "infinite"]),
    (started("rows.npy"), ["--init", "3 rows for 16 chains", "--chains 3"]),
    # log densities
    (sampled("pair"), ["logdensity", "a tuple", "return the value alone"]),
    (sampled("table"), ["logdensity", "a dict"]),
    (sampled("word"), ["logdensity", "a str"]),
    (sampled("nothing"), ["logdensity", "None"]),
    (sampled("complex_one"), ["logdensity", "complex"]),
    (sampled("truth"), ["logdensity", "bool"]),
    (sampled("vector"), ["logdensity", "(2,)", "sum"]),
    (sampled("nan"), ["nan", "init inside the support"]),
    (sampled("two"), ["logdensity", "argument", "'y'"]),
    (sampled("zero"), ["logdensity", "argument"]),
    (sampled("raising"), ["RuntimeError: no density", "d.py, line"]),
    (sampled("branching"), ["logdensity", "jnp.where"]),
    (sampled("numpys"), ["logdensity", "jax.numpy"]),
    (sampled("index"), ["logdensity", "d.py, line"]),
    # samplers
    (["sample", "--sampler", ""], ["--sampler", "''"]),
    (["sample", "--sampler", "gad-mal"], ["'gad-mal'", "gad-mala"]),
    (["sample", "--sampler", "ula"], ["--sampler", "'ula'", "Python"]),
    (["sample", "--sampler", "gad-mala:"], ["setting=value"]),
    (["sample", "--sampler", "gad-mala:exact"], ["'exact'", "setting=value"]),
    (["sample", "--sampler", "gad-mala:=exact"], ["setting=value"]),
    (["sample", "--sampler", "gad-mala:variant="], ["setting=value"]),
    (["sample", "--sampler", "gad-mala:variant=exact,"], ["setting=value"]),
    (["sample", "--sampler", "gad-mala:varient=exact"], ["'varient'", "variant"]),
    (["sample", "--sampler", "gad-mala:variant=slow"], ["variant", "'slow'", "fast, exact"]),
    (["sample", "--sampler", "gad-mala:optimiser=adam"], ["optimiser", "Python"]),
    (["sample", "--sampler", "gad-mala:gain=1"], ["gain", "Python"]),
    (["sample", "--sampler", "gad-mala:adapt_for_ever=maybe"], ["adapt_for_ever", "true or false", "'maybe'"]),
    (["sample", "--sampler", "gad-mala:scale=-1"], ["scale", "above 0", "-1"]),
    (["sample", "--sampler", "gad-mala:learning_rate=nan"], ["learning_rate", "nan"]),
    (["sample", "--sampler", "gad-mala:beta_rate=inf"], ["beta_rate", "inf"]),
    (["sample", "--sampler", "hmc:num_steps=1.5"], ["num_steps", "whole number", "'1.5'"]),
    (["sample", "--sampler", "hmc:num_steps=1,num_steps=2"], ["num_steps", "twice"]),
    (["sample", "--sampler", "hmc:inverse_mass_matrix=1"], ["inverse_mass_matrix", "Python"]),
    (["sample", "--sampler", "nuts:max_depth=99"], ["max_depth", "99"]),
    (["sample", "--sampler", "am:adapt_for_ever=true"], ["adapt_for_ever", "warm-up"]),
    (["sample", "correlated-2d", "--sampler", "mixture-walk:num_components=1000000000000"], ["mixture-walk", "GiB"]),
    # numbers
    (["sample", "--chains", "0"], ["--chains", "at least 1", "0"]),
    (["sample", "correlated-2d", "--chains", "1000000000"], ["num_chains", "GiB"]),
    (["sample", "--chains", str(10**30)], ["--chains", "at most"]),
    (["sample", "--chains", "4.0"], ["--chains", "whole number", "'4.0'"]),
    (["sample", "--draws", "-3"], ["--draws", "at least 1", "-3"]),
    (["sample", "--draws", ""], ["--draws", "whole number", "''"]),
    (["sample", "correlated-2d", "--warmup", "2000000000"], ["num_warmup", "GiB"]),
    (["sample", "--draws", str(10**30)], ["--draws", "at most"]),
    (["sample", "--warmup", "-1"], ["--warmup", "at least 0"]),
    (["sample", "--warmup", "nan"], ["--warmup", "whole number", "'nan'"]),
    (["sample", "--thinning", "0"], ["--thinning", "at least 1"]),
    (["sample", "--seed", "-1"], ["--seed", "at least 0"]),
    (["sample", "--seed", "99999999999"], ["--seed", "at most"]),
    (["sample", "--seed", "x"], ["--seed", "'x'"]),
    (["sample", "--adapt", "both"], ["both", "pooled", "per-chain"]),
    (["sample", "@/d.py:normal", "--dim", "0"], ["--dim", "at least 1"]),
    (["sample", "@/d.py:normal", "--dim", "two"], ["--dim", "'two'"]),
    (["sample", "@/d.py:normal", "--dim", "1000000"], ["1,000,000 coordinates", "GiB", "diagonal"]),
    (["sample", *DENSE, "--dim", "1000000"], ["gad-mala on 1,000,000 coordinates", "GiB", "diagonal"]),
    (["sample", "@/d.py:normal", "--dim", "2", "--draws", "2000000000"], ["num_draws", "GiB"]),
    (["sample", "--quiet=3"], ["quiet"]),
    # rules
    (["sample", "--until", ""], ["--until", "ess=1000"]),
    (["sample", "--until", "ess"], ["--until", "'ess'", "ess=1000"]),
    (["sample", "--until", "ess="], ["--until", "ess=1000"]),
    (["sample", "--until", "ess=1000;rhat=1.01"], ["--until", "number"]),
    (["sample", "--until", "draws=3"], ["--until", "'draws'", "ess, rhat, seconds"]),
    (["sample", "--until", "ess=many"], ["--until: ess", "a number", "'many'"]),
    (["sample", "--until", "ess=-1"], ["--until: ess", "above 0", "-1"]),
    (["sample", "--until", "ess=nan"], ["--until: ess", "nan"]),
    (["sample", "--until", "ess=1,ess=2"], ["--until", "twice"]),
    (["sample", "--until", "rhat=0.9"], ["--until: rhat", "above 1", "0.9"]),
    (["sample", "--until", "seconds=0"], ["--until: seconds", "above 0"]),
    (["sample", "--until", "every=500"], ["--until", "ess, rhat and seconds"]),
    (["sample", "--until", "ess=100,every=1.5"], ["--until: every", "whole number", "'1.5'"]),
    # files to be written
    (["sample", "--out", "run.nc"], ["--out", "zarr", "run.nc"]),
    (["sample", "--out", "-"], ["--out", "zarr", "'-'"]),
    (["sample", "--out", ""], ["--out", "zarr"]),
    (["sample", "--out", "no/such/run.zarr"], ["--out", "no/such", "does not exist"]),
    (["sample", "--out", "@/there.zarr"], ["--out", "there.zarr", "exists"]),
    (["sample", "--out", "@/link.zarr"], ["--out", "link.zarr", "exists"]),
    (["sample", "--out", "@/there.json/run.zarr"], ["--out", "there.json", "folder"]),
    (["sample", "--json", "no/such/a.json"], ["--json", "no/such", "does not exist"]),
    (["sample", "--json", "."], ["--json", "folder"]),
    (["sample", "--json", "/dev/null"], ["--json", "device", "choose"]),
    (["sample", "--json", "@/link.json"], ["--json", "symbolic link", "choose"]),
    (["sample", "--json", "@/nowhere.json"], ["--json", "symbolic link", "choose"]),
    (["sample", "--json", "@/pipe.json"], ["--json", "pipe", "choose"]),
    (["sample", "--plot", "a.gif"], ["--plot", "a.gif", ".png"]),
    (["sample", "--plot", "a"], ["--plot", "'a'", ".png"]),
    (["sample", "--plot", "-"], ["--plot", "'-'", ".png"]),
    (["sample", "--plot", "no/such/a.png"], ["--plot", "no/such", "does not exist"]),
    (["sample", "--plot", "@/link.png"], ["--plot", "symbolic link", "choose"]),
    (["sample", "--plot", "a.svg", "--json", "a.svg"], ["--plot", "--json", "different files"]),
    (["sample", "--plot", "a.svg", "--json", "./a.svg"], ["different files"]),
    # the other commands
    (["list", "gad-mal"], ["'gad-mal'", "gad-mala"]),
    (["list", ""], ["NAME", "''", "gadabout list"]),
    (["list", "neal", "german"], ["german"]),
    (["reproduce"], ["NAME"]),
    (["reproduce", "table9"], ["table9", "table"]),
    (["reproduce", "table3", "--repeats", "0", "--out", "."], ["--repeats", "at least 1"]),
    (["reproduce", "table3", "--repeats", "x", "--out", "."], ["--repeats", "'x'"]),
    (["reproduce", "table3", "--out", "@/there.json"], ["--out", "there.json", "choose another"]),
    (["reproduce", "table3", "--out", "@/there.json/a"], ["--out", "there.json", "choose another"]),
    (["reproduce", "table3", "--out", ".", "--json", "/dev/full"], ["--json", "device", "choose"]),
    (["reproduce", "table3", "--json", "no/such/a.json"], ["--json", "no/such", "does not exist"]),
    (["reproduce", "table3", "--json", "@/nowhere.json"], ["--json", "symbolic link"]),
    (["bench", "overhed"], ["overhed", "overhead"]),
    (["bench", "overhead", "gremlin"], ["gremlin", "german"]),
    (["bench", "overhead", "--iterations", "0"], ["--iterations", "at least 1"]),
    (["bench", "overhead", "--repeats", "x"], ["--repeats", "'x'"]),
    (["bench", "overhead", "--json", "@/there.zarr"], ["--json", "folder"]),
    (["bench", "samplers", "gremlin"], ["gremlin", "german"]),
    (["bench", "samplers", "--draws", "3"], ["--draws", "at least 4"]),
    (["bench", "samplers", "--seed", "-1"], ["--seed", "at least 0"]),
    (["bench", "bias", "--chains", "none"], ["--chains", "'none'"]),
    (["bench", "bias", "--draws", "39"], ["--draws", "at least 40"]),
    (["bench", "bias", "--json", "/dev/full"], ["--json", "device", "choose"]),
    (["bench", "held-out", "--draws", "0"], ["--draws", "at least 1"]),
    (["bench", "held-out", "--data-home", "@/there.json"], ["there.json"]),
    (["bench", "minibatch", "--rows", "10"], ["--rows", "at least 1000"]),
    (["bench", "minibatch", "--rows", "x"], ["--rows", "'x'"]),
    (["bench", "minibatch", "--rows", str(10**12)], ["--rows", "at most"]),
]


@pytest.mark.parametrize(("arguments", "words"), COMMANDS, ids=[" ".join(map(str, case[0]))[:60] for case in COMMANDS])
def test_a_malformed_command_is_refused_in_one_line(arguments, words, files):
    before = listing(files)
    refused([str(argument).replace("@", str(files)) for argument in arguments], words)
    assert listing(files) == before


NAMES = st.text(st.characters(codec="utf-8", exclude_characters=":", exclude_categories=["Cc", "Zs", "Zl", "Zp"]))


@settings(max_examples=40, derandomize=True, database=None, deadline=None)
@given(NAMES.filter(lambda name: name.strip().lower().replace("_", "-") not in RECIPES))
def test_no_other_name_is_a_sampler(name):
    refused(["sample", f"--sampler={name}"], ["--sampler", "no sampler is called"])


@settings(max_examples=40, derandomize=True, database=None, deadline=None)
@given(st.sampled_from(["--chains", "--draws", "--thinning"]), st.one_of(st.integers(max_value=0), st.floats(), NAMES))
def test_no_other_text_is_a_number_above_0(option, value):
    try:
        legal = int(str(value)) >= 1
    except ValueError:
        legal = False
    if not legal:
        refused(["sample", f"{option}={value}"], [option])
