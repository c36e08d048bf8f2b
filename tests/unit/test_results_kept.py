"""What a result holds can be read by any program, and is not lost where it cannot be saved."""

import json
import sys

import jax
import jax.numpy as jnp
import optax
import pytest
import xarray as xr
from typer.testing import CliRunner

import gadabout as gad
from gadabout.cli.app import app
from gadabout.cli.errors import FAILED
from gadabout.settings import settings_of

QUICK = {"num_warmup": 60, "num_draws": 50, "progress": False}
WALK = {"sampler": gad.rwm(), **QUICK}


@pytest.fixture(autouse=True)
def _own_precision():
    before, path = jax.config.jax_enable_x64, list(sys.path)
    yield
    jax.config.update("jax_enable_x64", before)
    sys.path[:] = path


def normal(x):
    return -0.5 * jnp.sum(x**2)


RECIPES = {
    "gad-mala": gad.gad_mala("exact", "diagonal", target_acceptance=0.6, learning_rate=0.001),
    "optax": gad.gad_mala(optimiser=optax.adam(1e-3)),
    "nuts": gad.nuts("dense", max_depth=7),
    "cycle": gad.cycle(gad.rwm(step_size=0.3), gad.hmc(4)),
    "haario": gad.haario(),
}


@pytest.mark.parametrize("name", RECIPES)
def test_settings_are_numbers_words_and_lists(name):
    settings = settings_of(RECIPES[name])
    assert json.loads(json.dumps(settings, allow_nan=False)) == settings
    assert all(isinstance(value, str | int | float | list | None) for value in settings.values())


def test_settings_are_those_that_were_given():
    with jax.enable_x64(False):
        settings = settings_of(gad.gad_mala("exact", "diagonal", target_acceptance=0.6, learning_rate=0.001, scale=0.1))
    assert settings["kernel.exact"] is True
    assert settings["kernel.factor"] == "diagonal"
    assert settings["kernel.scale"] == 0.1  # and not float32's 0.10000000149
    assert settings["adaptation"] == "SpeedMeasure"
    assert settings["adaptation.target_acceptance"] == 0.6
    assert settings["adaptation.optimiser.learning_rate"] == 0.001
    assert settings_of(RECIPES["cycle"])["kernel.0.0.step_size"] == 0.3
    assert settings_of(RECIPES["cycle"])["adaptation.parts.1.adaptation.power"] == 1


def test_long_arrays_are_told_by_type_and_shape():
    proposal = gad.proposals.Gaussian(jnp.zeros(40), gad.factors.Cholesky(jnp.eye(40)))
    settings = settings_of(gad.independence(proposal))
    assert "float64[40, 40]" in settings.values()
    assert len(json.dumps(settings)) < 2_000


def test_attributes_go_to_a_store_and_come_back(tmp_path):
    tree = gad.sample(normal, jnp.zeros(3), sampler=gad.nuts(), out=tmp_path / "run.zarr", **QUICK)
    back = xr.open_datatree(tmp_path / "run.zarr", engine="zarr")
    for name in ("sampler_settings", "findings", "warnings"):
        assert back.attrs[name] == tree.attrs[name]
        assert json.loads(json.dumps(tree.attrs[name], allow_nan=False)) == tree.attrs[name]
    assert back.attrs["sampler_settings"]["adaptation.rule.target_acceptance"] == 0.8
    xr.testing.assert_equal(back["diagnostics"], tree["diagnostics"])
    assert set(tree["diagnostics"].children) == {"rhat", "ess_bulk", "ess_tail", "ess_within"}


def test_findings_are_warned_of_once_each_at_the_users_line():
    with pytest.warns(gad.DiagnosticWarning) as caught:
        tree = gad.sample(normal, jnp.full(3, 100.0), num_chains=1, **WALK)
    assert sorted(str(warning.message) for warning in caught) == sorted(tree.attrs["warnings"])
    assert {warning.filename for warning in caught} == {__file__}
    assert "halves" in {finding["kind"] for finding in tree.attrs["findings"]}


@pytest.mark.parametrize(
    "record", [["warmup_posterior"], ["lp"], ["posterior"], ["warmup_posterior", "acceptance_rate"]]
)
def test_whatever_is_recorded_is_judged_by_what_there_is(record):
    tree = gad.sample(normal, jnp.zeros(2), sampler=gad.rwm(), record=record, **QUICK)
    assert ("diagnostics" in tree.children) == ("posterior" in tree.children)
    assert "no-draws" not in {finding["kind"] for finding in tree.attrs["findings"]}


def test_a_result_that_cannot_be_finished_says_so(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gadabout.store.ZarrSink.finish", full)
    with pytest.warns(UserWarning, match="could not be finished at .*No space left"):
        tree = gad.sample(normal, jnp.zeros(3), out=tmp_path / "run.zarr", **WALK)
    assert tree["posterior"].sizes["draw"] == 50
    assert "not-saved" in {finding["kind"] for finding in tree.attrs["findings"]}
    assert xr.open_datatree(tmp_path / "run.zarr", engine="zarr")["posterior"].sizes["draw"] == 50
    monkeypatch.undo()
    assert gad.resume(tmp_path / "run.zarr", normal, progress=False).attrs["ending"] == "completed"


SHORT = ["--warmup", "60", "--draws", "50", "--chains", "2", "--sampler", "gad-mala", "--no-progress"]


def run(*arguments):
    return CliRunner().invoke(app, ["sample", "correlated-2d", *SHORT, *map(str, arguments)])


def test_figures_that_cannot_be_written_do_not_hide_the_summary(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gadabout.cli.options.write_json", full)
    result = run("--json", tmp_path / "a.json", "--out", tmp_path / "run.zarr")
    assert result.exit_code == FAILED
    assert "could not write" in result.stderr
    assert "draws stored in" in result.stdout
    assert "figures saved" not in result.stdout


def test_a_run_that_cannot_go_on_ends_with_its_draws(tmp_path, monkeypatch):
    sample = gad.sample

    def stopping(*args, callback, **kwargs):
        def trouble(progress):
            if progress.stage == "sampling":
                raise ValueError("mine")

        return sample(*args, callback=trouble, **kwargs)

    monkeypatch.setattr(gad, "sample", stopping)
    result = run("--out", tmp_path / "run.zarr")
    assert result.exit_code == FAILED, result.output
    assert "warning: the run stopped early: " in result.stdout
    assert "callback raised ValueError" in result.stdout
    kept = xr.open_datatree(tmp_path / "run.zarr", engine="zarr")
    assert kept.attrs["ending"] == "failed"
    assert kept["posterior"].sizes["draw"] > 0
