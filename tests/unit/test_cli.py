"""The command line, in process."""

import inspect
import json
import os
import subprocess
import sys
from importlib.metadata import version

import jax
import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

from gadabout.algorithms import PLANS, PYTHON_RECIPES, RECIPES
from gadabout.cli import main
from gadabout.cli.app import app
from gadabout.cli.progress import LiveProgress, duration, stage_bars
from gadabout.cli.specs import parse_sampler
from gadabout.reporting.summary import summarise
from gadabout.targets import available, sets

SHORT = ["--warmup", "200", "--draws", "200", "--chains", "2"]
MALA = ["--sampler", "gad-mala"]
KEYS = {
    *("target", "sampler", "num_chains", "num_warmup", "num_draws", "seed", "acceptance_rate", "rhat_max", "ess"),
    *("seconds", "gradient_evaluations", "findings"),
}
DENSITY = """
import jax.numpy as jnp

SCALE = 2.0

def normal(x):
    return -0.5 * jnp.sum((x / SCALE) ** 2)

def nowhere(x):
    return jnp.sum(x) * jnp.nan
"""


@pytest.fixture(autouse=True)
def _own_precision():
    before = jax.config.jax_enable_x64
    path = list(sys.path)
    yield
    jax.config.update("jax_enable_x64", before)
    sys.path[:] = path


@pytest.fixture
def density(tmp_path):
    path = tmp_path / "density.py"
    path.write_text(DENSITY)
    return path


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def strict(text):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def refused(result, *words):
    """Exit code 2, nothing on stdout, one line on stderr with these words in it."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("gadabout: error: ")
    assert result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr
    return True


def test_version():
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"gadabout {version('gadabout')}\n")


def test_alone_it_shows_help():
    result = run()
    assert result.exit_code == 0
    assert "sample" in result.stdout
    assert "list" in result.stdout


def test_list_has_one_line_for_each_target_and_sampler():
    result = run("list")
    assert result.exit_code == 0
    lines = [line.split(maxsplit=1) for line in result.stdout.splitlines() if line.startswith("  ")]
    assert [line[0] for line in lines] == [*available(), *sets.NAMES, *PLANS, *RECIPES, *PYTHON_RECIPES]
    assert all(len(line) == 2 for line in lines)


@pytest.mark.parametrize("name", [*RECIPES, *PYTHON_RECIPES])
def test_list_tells_every_setting_its_default_and_its_meaning(name):
    result = run("list", name)
    assert result.exit_code == 0, result.output
    recipe = (RECIPES | PYTHON_RECIPES)[name]
    lines = result.stdout.splitlines()
    assert lines[0] == f"{name}: {recipe.__doc__.strip().splitlines()[0]}"
    for setting, parameter in inspect.signature(recipe).parameters.items():
        (place,) = (i for i, line in enumerate(lines) if line.startswith(f"  {setting}: "))
        assert lines[place + 1].startswith("      ")
        assert lines[place + 1].strip()
        if isinstance(parameter.default, str | float | int):
            assert f"{str(parameter.default).lower()} by default" in lines[place].lower()


def test_list_of_one_sampler_and_one_target():
    shown = run("list", "GAD_mala").stdout
    assert "  factor: one of dense, diagonal, low-rank; dense by default\n      " in shown
    assert "  optimiser: an object, in Python only\n      an optax transformation" in shown
    assert run("list", "neal").stdout == f"neal: {available()['neal']}\n"


def test_version_and_help_import_nothing_heavy():
    heavy = "{'jax', 'equinox', 'xarray', 'scipy', 'blackjax', 'arviz_base', 'numpyro'} & set(sys.modules)"
    for argument in ("--version", "--help"):
        code = f"import sys, atexit; atexit.register(lambda: print({heavy})); from gadabout.cli import main; main()"
        command = [sys.executable, "-c", code, argument]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == "set()"


def test_public_names_import_neither_blackjax_nor_xarray():
    code = (
        "import sys, gadabout; gadabout.nuts(); print({'blackjax', 'xarray', 'arviz_base', 'scipy'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "set()", done.stderr


def test_until_ends_a_run_and_says_so(tmp_path):
    arguments = ["sample", "correlated-2d", *SHORT[:2], "--chains", 2, "--sampler", "hmc:num_steps=3"]
    files = ["--json", tmp_path / "a.json", "--out", tmp_path / "a.zarr"]
    met = run(*arguments, "--draws", 4_000, "--until", "seconds=1e-6,every=100", *files)
    assert met.exit_code == 0, met.output
    assert "--until is met after 100 draws" in met.stdout
    assert strict((tmp_path / "a.json").read_text())["num_draws"] == 100
    attributes = xr.open_datatree(tmp_path / "a.zarr", engine="zarr").attrs
    assert attributes["ending"] == "satisfied"
    assert attributes["until"]["every"] == 100
    not_met = run(*arguments, "--draws", 200, "--until", "ess=1e6,every=100")
    assert not_met.exit_code == 0, not_met.output
    assert "warning: all 200 draws were made and --until is not met" in not_met.stdout


def test_table_shows_the_error_of_the_mean(tmp_path):
    result = run("sample", "correlated-2d", *MALA, *SHORT)
    assert "MCSE" in result.stdout
    assert "paper" not in result.stdout
    assert "square" not in result.stdout
    x = np.random.default_rng(0).normal(size=(4, 1_000, 2)) * [1.0, 0.0]
    stats = xr.Dataset({"acceptance_rate": (("chain", "draw"), np.full((4, 1_000), 0.5))})
    posterior = xr.Dataset({"x": (("chain", "draw", "i"), x)})
    mcse = summarise(xr.DataTree.from_dict({"posterior": posterior, "sample_stats": stats})).mcse
    assert mcse[0] == pytest.approx(1 / np.sqrt(4_000), rel=0.2)  # of independent draws
    assert np.isnan(mcse[1])


def test_sample_writes_strict_json_table_store_and_plot(tmp_path):
    figures, store, plot = tmp_path / "a.json", tmp_path / "a.zarr", tmp_path / "a.png"
    files = ["--json", figures, "--out", store, "--plot", plot]
    result = run("sample", "correlated-2d", *MALA, *SHORT, "--seed", "3", "--adapt", "per-chain", *files)
    assert result.exit_code == 0, result.output
    assert "x[1]" in result.stdout
    found = strict(figures.read_text())
    assert set(found) == KEYS
    assert set(found["ess"]) == {"paper", "bulk", "tail", "square"}
    assert all(set(spread) == {"min", "median", "max"} for spread in found["ess"].values())
    assert set(found["seconds"]) == {"compile", "warmup", "sampling", "total"}
    assert (found["target"], found["sampler"]) == ("correlated-2d", "gad-mala")
    assert (found["num_chains"], found["num_warmup"], found["num_draws"], found["seed"]) == (2, 200, 200, 3)
    assert found["gradient_evaluations"] == 2 * 400
    assert plot.read_bytes().startswith(b"\x89PNG")
    tree = xr.open_datatree(store, engine="zarr")
    assert tree["posterior"]["x"].shape == (2, 200, 2)
    assert found["acceptance_rate"] == pytest.approx(float(tree["sample_stats"]["acceptance_rate"].mean()))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "a.png", "a.zarr"]


def test_what_is_not_a_number_is_null(tmp_path):
    figures = tmp_path / "a.json"
    result = run("sample", "correlated-2d", *MALA, "--warmup", 0, "--draws", 3, "--chains", 1, "--json", figures, "-q")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    found = strict(figures.read_text())
    assert found["rhat_max"] is None
    assert found["ess"]["bulk"] == {"min": None, "median": None, "max": None}


def test_json_goes_to_standard_output_for_a_dash(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("sample", "correlated-2d", *MALA, *SHORT, "--json", "-", "-q")
    assert result.exit_code == 0, result.output
    assert set(strict(result.stdout)) == KEYS
    assert list(tmp_path.iterdir()) == []


def test_many_coordinates_show_the_worst_and_say_so(tmp_path):
    result = run(
        "sample", "neal", *SHORT, "--sampler", "hmc:num_steps=2", "--plot", tmp_path / "a.svg", "--thinning", 2
    )
    assert result.exit_code == 0, result.output
    assert "the 12 of 100 coordinates with the smallest ESS" in result.stdout
    assert result.stdout.count("│ x[") == 12
    assert "warning: the chains do not agree, by R-hat: x[" in result.stdout
    assert "<svg" in (tmp_path / "a.svg").read_text()


def test_progress_is_plain_without_a_terminal():
    result = run("sample", "correlated-2d", *MALA, *SHORT)
    assert "gadabout sampling: 200/200 iterations" in result.stderr
    assert "\x1b" not in result.stderr + result.stdout
    assert "\r" not in result.stderr
    assert run("sample", "correlated-2d", *MALA, *SHORT, "--no-progress").stderr == ""


def test_bars_show_each_stage(capsys):
    from rich.console import Console

    from gadabout.driver import Progress

    console = Console(stderr=True, force_terminal=True, width=100)
    with stage_bars(console) as bars:
        display = LiveProgress(bars)
        display(Progress("warmup", 50, 100, 0.5, 100, 3.0, 100.0))
        display(Progress("warmup", 100, 100, 0.5, 200, 3.5, 100.0))
        display(Progress("sampling", 1, 101, 0.25, 201, 3.6, 1e6))
        bars.refresh()
        first = capsys.readouterr().err
        display(Progress("sampling", 11, 101, 0.25, 211, 3.7, 100.0))
    shown = first + capsys.readouterr().err
    for words in ("compile", "2.5 s", "warm-up", "100/100", "200 grad/s", "acceptance 0.25", "0.9 s left"):
        assert words in shown
    assert "1/101" in first
    assert "s left" not in first.rpartition("1/101")[2]
    assert "grad/s" not in first.rpartition("1/101")[2]


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.42, "0.4 s"), (12.3, "12 s"), (185, "3 min 5 s"), (7800, "2 h 10 min"), (np.nan, "?")]
)
def test_duration(seconds, words):
    assert duration(seconds) == words


def test_float32_and_float64(density):
    for flag, expected in ((["--float32"], np.float32), ([], np.float64)):
        store = density.with_name(f"{np.dtype(expected).name}.zarr")
        result = run("sample", f"{density}:normal", "--dim", 2, *MALA, *SHORT, "--out", store, "-q", *flag)
        assert result.exit_code == 0, result.output
        assert xr.open_datatree(store, engine="zarr")["posterior"]["x"].dtype == expected


def test_file_target_starts_at_the_rows_of_a_file(density, tmp_path):
    np.save(tmp_path / "start.npy", np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    arguments = ["sample", f"{density}:normal", "--init", tmp_path / "start.npy", "--sampler", "rwm:step_size=1e-6"]
    result = run(*arguments, "--chains", 2, "--warmup", 0, "--draws", 5, "--out", tmp_path / "a.zarr", "-q")
    assert result.exit_code == 0, result.output
    first = xr.open_datatree(tmp_path / "a.zarr", engine="zarr")["posterior"]["x"][:, 0]
    np.testing.assert_allclose(first, [[1, 2, 3], [4, 5, 6]], atol=1e-3)
    np.save(tmp_path / "one.npy", np.array([1, 2, 3]))
    assert run("sample", f"{density}:normal", "--init", tmp_path / "one.npy", *MALA, *SHORT, "-q").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["smaple"], ["smaple", "sample"]),
        (["sample", "--bogus"], ["--bogus"]),
        (["sample", "breast-canser"], ["breast-canser", "breast-cancer"]),
        (["sample", "--sampler", "gad-mal"], ["'gad-mal'", "gad-mala"]),
        (["sample", "--sampler", "gad-mala:varient=exact"], ["varient", "variant"]),
        (["sample", "--sampler", "gad-mala:variant=slow"], ["'slow'", "fast, exact"]),
        (["sample", "--sampler", "gad-mala:learning_rate=big"], ["learning_rate", "a number", "'big'"]),
        (["sample", "--sampler", "hmc:num_steps=1.5"], ["num_steps", "whole number", "'1.5'"]),
        (["sample", "--sampler", "hmc:num_steps=0"], ["num_steps", "at least 1", "0"]),
        (["sample", "--sampler", "gad-mala:target_acceptance=2"], ["target_acceptance", "between 0 and 1"]),
        (["sample", "--sampler", "gad-mala:optimiser=adam"], ["optimiser", "Python"]),
        (["sample", "--sampler", "gad-mala:"], ["setting=value"]),
        (["sample", "--sampler", "gad-mala:exact"], ["'exact'", "setting=value"]),
        (["sample", "--sampler", "hmc:num_steps=1,num_steps=2"], ["twice"]),
        (["sample", "--until", "ess"], ["--until", "'ess'", "ess=1000"]),
        (["sample", "--until", "draws=3"], ["--until", "'draws'", "ess, rhat, seconds"]),
        (["sample", "--until", "ess=many"], ["--until: ess", "a number", "'many'"]),
        (["sample", "--until", "rhat=0.9"], ["--until: rhat", "above 1", "0.9"]),
        (["list", "gad-mal"], ["'gad-mal'", "gad-mala"]),
        (["sample", "--chains", "0"], ["--chains", "at least 1", "got 0"]),
        (["sample", "--draws", "-3"], ["--draws", "at least 1", "got -3"]),
        (["sample", "--draws", "many"], ["--draws", "whole number", "'many'"]),
        (["sample", "--warmup", "-1"], ["--warmup", "at least 0", "got -1"]),
        (["sample", "--thinning", "0"], ["--thinning", "at least 1"]),
        (["sample", "--seed", "-1"], ["--seed", "at least 0"]),
        (["sample", "--seed", "99999999999"], ["--seed", "at most"]),
        (["sample", "--adapt", "both"], ["both", "pooled", "per-chain"]),
        (["sample", "neal", "--dim", "3"], ["--dim", "neal"]),
        (["sample", "missing.py:f", "--dim", "2"], ["missing.py", "no file"]),
        (["sample", "missing.py", "--dim", "2"], ["file.py:function"]),
        (["sample", "--out", "run.nc"], ["zarr", "run.nc"]),
        (["sample", "--out", "no/such/run.zarr"], ["no/such", "does not exist"]),
        (["sample", "--json", "no/such/a.json"], ["--json", "no/such", "does not exist"]),
        (["sample", "--json", "."], ["--json", "folder"]),
        (["sample", "--json", "/dev/null"], ["--json", "device", "choose"]),
        (["reproduce", "table3", "--out", ".", "--json", "/dev/full"], ["--json", "device", "choose"]),
        (["bench", "bias", "--json", "/dev/full"], ["--json", "device", "choose"]),
        (["sample", "--plot", "no/such/a.png"], ["--plot", "no/such", "does not exist"]),
        (["sample", "--plot", "a.gif"], ["--plot", "a.gif", ".png"]),
        (["sample", "--plot", "a.svg", "--json", "a.svg"], ["different files"]),
    ],
)
def test_bad_input_is_one_clear_line(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refused(run(*arguments), *words)
    assert list(tmp_path.iterdir()) == []


def test_bad_files_of_targets(density, tmp_path):
    target = f"{density}:normal"
    assert refused(run("sample", target), "neither", "--dim", "--init")
    assert refused(run("sample", target, "--dim", 2, "--init", tmp_path / "a.npy"), "both")
    assert refused(run("sample", f"{density}:norml", "--dim", 2), "norml", "normal")
    assert refused(run("sample", f"{density}:SCALE", "--dim", 2), "SCALE", "float")
    assert refused(run("sample", target, "--init", tmp_path / "a.npy"), "a.npy", "cannot be read")
    assert refused(run("sample", target, "--init", density), "density.py", "numpy.save")
    for name, array, words in (
        ("rows", np.zeros((3, 2)), ["3 rows for 16 chains", "--chains 3"]),
        ("words", np.array(["a"]), ["real numbers"]),
        ("deep", np.zeros((1, 1, 1)), ["(1, 1, 1)"]),
        ("nan", np.array([np.nan]), ["NaN"]),
    ):
        np.save(tmp_path / f"{name}.npy", array)
        assert refused(run("sample", target, "--init", tmp_path / f"{name}.npy"), *words)
    density.write_text("x = 1\nprint(undefined)\n")
    assert refused(run("sample", target, "--dim", 2), "line 2", "undefined")
    density.write_text("def normal(x:\n")
    assert refused(run("sample", target, "--dim", 2), "line 1", "SyntaxError")


def test_what_sample_refuses_leaves_no_files(density, tmp_path):
    files = ["--json", tmp_path / "a.json", "--plot", tmp_path / "a.png", "--out", tmp_path / "a.zarr"]
    result = run("sample", f"{density}:nowhere", "--dim", 2, *files, "--no-progress")
    assert refused(result, "no finite start")
    assert {path.name for path in tmp_path.iterdir()} <= {"density.py", "__pycache__"}


def test_existing_files_are_replaced_but_not_stores(tmp_path):
    (tmp_path / "a.json").write_text("old")
    (tmp_path / "a.zarr").mkdir()
    assert run("sample", "correlated-2d", *MALA, *SHORT, "-q", "--json", tmp_path / "a.json").exit_code == 0
    assert "target" in strict((tmp_path / "a.json").read_text())
    assert refused(run("sample", "--out", tmp_path / "a.zarr"), "a.zarr", "exists")


def test_an_interrupted_run_ends_with_its_figures(tmp_path, monkeypatch):
    import signal

    import gadabout

    pressed = []

    def press(progress):
        if not pressed:
            pressed.append(progress)
            os.kill(os.getpid(), signal.SIGINT)

    def interrupted(*arguments, callback, **settings):
        pressed.clear()
        return original(*arguments, callback=press, **settings)

    original = gadabout.sample
    monkeypatch.setattr(gadabout, "sample", interrupted)
    files = ["--json", tmp_path / "a.json", "--plot", tmp_path / "a.png"]
    arguments = ["sample", "correlated-2d", *MALA, "--chains", 2, *files]
    in_sampling = run(*arguments, "--warmup", 0, "--draws", 100_000)
    assert in_sampling.exit_code == 130
    assert "interrupted" in in_sampling.stdout
    assert 0 < strict((tmp_path / "a.json").read_text())["num_draws"] < 100_000
    in_warmup = run(*arguments, "--warmup", 100_000)
    assert in_warmup.exit_code == 130
    assert "no draws were made" in in_warmup.stdout
    found = strict((tmp_path / "a.json").read_text())
    assert found["num_draws"] == 0
    assert 0 < found["num_warmup"] < 100_000
    assert found["acceptance_rate"] is None


def test_sampler_specification():
    sampler = parse_sampler("GAD_mala:variant=exact,factor=diagonal,target-acceptance=0.6")
    assert sampler.name == "gad-mala"
    assert sampler.make_kernel.keywords["exact"] is True
    assert sampler.make_kernel.keywords["factor"] == "diagonal"
    assert float(sampler.adaptation.target_acceptance) == pytest.approx(0.6)
    assert parse_sampler("hmc:num_steps=3").make_kernel.keywords["num_steps"] == 3


def test_summary_names_leaves_of_any_shape():
    x = np.random.default_rng(0).normal(size=(2, 50, 2, 2))
    stats = xr.Dataset({"acceptance_rate": (("chain", "draw"), np.full((2, 50), 0.5))})
    posterior = xr.Dataset({"mu": (("chain", "draw"), x[:, :, 0, 0]), "w": (("chain", "draw", "i", "j"), x)})
    summary = summarise(xr.DataTree.from_dict({"posterior": posterior, "sample_stats": stats}))
    assert summary.names == ["mu", "w[0,0]", "w[0,1]", "w[1,0]", "w[1,1]"]
    np.testing.assert_array_equal(summary.draws[:, :, 1:].reshape(x.shape), x)


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_a_missing_extra_is_one_message(missing, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setattr(sys, "argv", ["gadabout", "sample", "correlated-2d"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert capsys.readouterr().err.endswith(f'needs {missing}: pip install "gadabout[cli]"\n')
