"""What a result says against itself: planted bad chains are found, good ones are left in peace.

Draws are simulated, so that nothing is compiled and the truth is known. The limits are those of `findings/draws.py`.
"""

import json

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from scipy.signal import lfilter

import gadabout as gad
from gadabout.diagnostics.summary import MOST_JUDGED
from gadabout.driver import Completed, Failed, Interrupted, Until
from gadabout.findings import DIAGNOSTICS, Finding, note
from gadabout.findings.draws import as_tree, found_in_draws, judge
from gadabout.findings.run import coarse, few_starts, found_in_run

CHAINS, DRAWS, N = 4, 1_000, 6


def autoregressive(seed=0, rho=0.0, shape=(CHAINS, DRAWS, N)):
    """Stationary AR(1) chains of unit variance, (chain, draw, n)."""
    random = np.random.default_rng(seed)
    start = rho * random.standard_normal((shape[0], 1, shape[2]))
    noise = np.sqrt(1 - rho**2) * random.standard_normal(shape)
    return lfilter([1.0], [1.0, -rho], noise, axis=1, zi=start)[0]


def dataset(**variables):
    dims = lambda name, x: ("chain", "draw", *(f"{name}_dim_{i}" for i in range(x.ndim - 2)))
    data = xr.Dataset({name: (dims(name, x), x) for name, x in variables.items()})
    return data.assign_coords({dim: np.arange(size) for dim, size in data.sizes.items()})


def found(x=None, stats=None, learned=None, **variables):
    """Kinds and findings on some draws."""
    posterior = dataset(**({} if x is None else {"x": x}), **variables)
    told = found_in_draws(posterior, judge(posterior))
    if stats is not None:
        told = found_in_run(Completed(), None, posterior.sizes["draw"], stats, learned or {}) + told
    return {finding.kind: finding for finding in told}


GOOD = [(0.0, DRAWS, 200), (0.3, 2_000, 100), (-0.5, DRAWS, 100)]


@pytest.mark.parametrize(("rho", "draws", "runs"), GOOD)
def test_good_runs_are_not_flagged(rho, draws, runs):
    """No more than 1 % of runs of six coordinates with a bulk ESS of 2,000 or more: one of 100, two of 200.

    χ² with 7 degrees of freedom would have to reach 42 for R-hat to reach 1.01 at an ESS of 2,000: by chance once in
    two million coordinates.
    """
    flagged = sum(bool(found(autoregressive(seed, rho, (CHAINS, draws, N)))) for seed in range(runs))
    assert flagged <= runs / 100


@pytest.mark.parametrize("chains", [2, 4, 16])
def test_short_good_chains_are_seldom_said_to_disagree(chains):
    """The other end: chains of 400 draws, ρ = 0.7, ESS 70 each: at most 2 % of 200 runs of one coordinate.

    Of 1,000, 0.3 %, 0.0 % and 0.0 % were when the limits were chosen; 1.2 % of two chains with an ESS of 470 in all.
    """
    seen = [found(autoregressive(seed, 0.7, (chains, 400, 1))) for seed in range(200)]
    assert sum("rhat" in each for each in seen) <= 4


def test_halves_of_a_good_chain_agree():
    """One chain: its halves are told apart by chance in at most 1 % of 200 runs."""
    seen = [found(autoregressive(seed, 0.5, (1, 2_000, 3))) for seed in range(200)]
    assert sum("halves" in each for each in seen) <= 2


def frozen(x):
    x[2] = x[2, :1]


def two_modes(x):
    x[:2, :, 3] += 6.0


def an_outlier(x):
    x[1, :, 4] += 1.0


def wider(x):
    x[3, :, 2] *= 3.0


def lagging(x):
    x[0] = autoregressive(99, 0.999, x[:1].shape)[0]


def drifting(x):
    x[:, :, 1] += np.linspace(-1.0, 1.0, x.shape[1])


PLANTED = [
    (frozen, "rhat", None, [2]),
    (two_modes, "rhat", "x[3]", []),
    (an_outlier, "rhat", "x[4]", [1]),
    (wider, "rhat", "x[2]", [3]),
    (lagging, "rhat", None, [0]),
    (drifting, "rhat", "x[1]", []),
]


@pytest.mark.parametrize(
    ("planted", "kind", "variable", "chains"), PLANTED, ids=lambda value: getattr(value, "__name__", None)
)
@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_planted_bad_chains_are_found(planted, kind, variable, chains, rho):
    """Ten of ten, naming the variable and, where one chain stands apart, the chain in nine of ten at least."""
    seen = []
    for seed in range(10):
        x = autoregressive(seed, rho)
        planted(x)
        seen.append(found(x))
    assert all(kind in each for each in seen)
    if variable is not None:
        assert all(each[kind].variables[0] == variable for each in seen)
    assert sum(list(each[kind].chains) == chains for each in seen) >= 9


@pytest.mark.parametrize("length", [100, 1_000, 10_000])
def test_a_single_chain_that_drifts_is_found(length):
    """Ten of ten, by its halves or, where it has hardly any ESS, by that."""
    for seed in range(10):
        x = autoregressive(seed, 0.5, (1, length, 2))
        x[..., 0] += np.linspace(-2.0, 2.0, length)
        assert {"halves", "ess"} & set(found(x))


def test_figures_are_those_of_the_draws():
    """A record's figure, recomputed by another program from the stored draws."""
    import arviz_stats

    x = autoregressive(3, 0.99)
    two_modes(x)
    told = found(x)
    tree = xr.DataTree.from_dict({"posterior": dataset(x=x)})
    assert told["rhat"].figure == pytest.approx(float(arviz_stats.rhat(tree)["x"].max()), rel=1e-6)
    ess = min(float(arviz_stats.ess(tree, method=method)["x"].min()) for method in ("bulk",))
    assert told["ess"].figure <= ess * (1 + 1e-6)
    assert told["ess"].limit == 400


def test_variables_are_named_by_index_or_label():
    x = autoregressive()
    two_modes(x)
    (finding,) = (found(mu=x[..., 3], w=x.reshape(CHAINS, DRAWS, 2, 3))[kind] for kind in ("rhat",))
    assert set(finding.variables) == {"mu", "w[1,0]"}
    labelled = dataset(x=x).assign_coords(x_dim_0=list("abcdef"))
    assert found_in_draws(labelled, judge(labelled))[0].variables == ["x[d]"]


def test_whole_numbers_truth_values_and_constants_do_no_harm():
    x = autoregressive()
    kinds = found(
        count=np.round(3 * x[..., 0]).astype(int),
        flag=x[..., 1] > 0,
        rare=x[..., 2] > 3,
        fixed=np.zeros((CHAINS, DRAWS, 2)),
        never=np.zeros((CHAINS, DRAWS), bool),
        x=x,
    )
    assert kinds == {}
    beyond = x.copy()
    beyond[0, 5, 0] = np.inf
    assert found(beyond) == {}
    assert found(np.zeros((CHAINS, DRAWS, 2))) == {}


@pytest.mark.parametrize("draws", [1, 3, 4, 50, 99])
def test_few_draws_are_one_message(draws):
    told = found(autoregressive(0, 0.0, (CHAINS, draws, N)))
    assert list(told) in (["few-draws"], ["rhat"])
    assert told.get("few-draws", told.get("rhat")).remedy
    many = found(autoregressive(0, 0.0, (64, 50, N)))  # short chains, but 3,200 draws
    assert many == {}


def test_long_runs_are_judged_by_some_draws_and_say_so():
    x = autoregressive(0, 0.0, (2, 3 * MOST_JUDGED, 1))
    x[0] += 1
    verdict = judge(dataset(x=x))
    assert verdict.spacing == 3
    assert as_tree(verdict, dataset(x=x)).attrs == {"every": 3}
    assert "one draw in 3" in found(x)["rhat"].problem


def rates(*of_chains, draws=500, **others):
    accepted = np.random.default_rng(0).random((len(of_chains), draws)) < np.array(of_chains)[:, None]
    return {"acceptance_rate": accepted.astype(float), "accepted": accepted, **others}


ACCEPTED = rates(0.5, 0.6, 0.5, 0.6)


def test_what_a_run_itself_tells():
    tell = lambda stats, learned=None: {
        finding.kind: finding for finding in found_in_run(Completed(), None, 500, stats, learned or {})
    }
    assert tell(rates(0.5, 0.6, 0.5)) == {}
    assert tell(rates(0.5, 0.0, 0.5))["frozen"].chains == [1]
    assert tell(rates(0.5, 0.01, 0.5))["lagging"].chains == [1]
    aim = {"target_acceptance": np.array([0.25])}
    assert tell(rates(0.2, 0.3, 0.25), aim) == {}
    assert tell(rates(0.9, 0.9, 0.8), aim)["acceptance"].figure == pytest.approx(0.87, abs=0.05)
    each = {"target_acceptance": np.array([0.25, 0.25, 0.8])}
    assert tell(rates(0.25, 0.8, 0.8), each)["acceptance"].chains == [1]
    part = {"target_acceptance_1": np.array([0.25])}
    assert tell(rates(0.9, 0.9), part) == {}
    assert tell(rates(0.9, 0.9, acceptance_rate_1=np.full((2, 500), 0.01)), part)["acceptance"].limit == 0.25
    assert tell({}) == {}
    assert tell(rates(0.5, nonfinite=np.eye(1, 500, dtype=bool)))["nonfinite"].figure == 1
    assert tell(rates(0.5, 0.5), {"beta_at_cap_0": np.array([True])}).keys() == {"beta-at-cap"}


def test_how_a_run_ended_is_told():
    kinds = lambda ending, until, draws: [f.kind for f in found_in_run(ending, until, draws, {}, {})]
    assert kinds(Interrupted(), None, 0) == ["interrupted", "no-draws"]
    assert kinds(Failed("no more batches"), None, 7) == ["failed"]
    assert kinds(Completed(), Until(ess=9), 7) == ["until"]


def test_records_are_plain():
    finding = Finding("rhat", "bad", "more", chains=[1], variables=["x"], figure=np.inf, limit=np.float32(1.5))
    tree = xr.DataTree()
    note(tree, [finding])
    note(tree, [Finding("ess", "few")])
    assert tree.attrs["warnings"] == ["bad; more", "few"]
    assert json.loads(json.dumps(tree.attrs["findings"][0], allow_nan=False)) == {
        "kind": "rhat",
        "problem": "bad",
        "remedy": "more",
        "chains": [1],
        "variables": ["x"],
        "figure": None,
        "limit": 1.5,
    }
    assert {"rhat", "halves", "ess", "few-draws", "acceptance", "unsettled", "cut-short"} == DIAGNOSTICS


def test_log_densities_that_are_too_large_for_their_type():
    """Of 2.4e7 float32 knows multiples of 2, float64 knows enough."""
    lp = 2.4e7 + np.random.default_rng(0).normal(size=(4, 500))
    (found,) = coarse({"lp": lp.astype(np.float32)})
    assert (found.kind, found.figure, found.limit) == ("coarse", 2.0, 0.1)
    assert "float32" in found.problem
    assert not coarse({"lp": lp})
    assert not coarse({"lp": (lp - 2.4e7).astype(np.float32)})
    assert not coarse({})


def test_log_densities_that_jump():
    """Where log densities are too coarse for their type, that alone is said; float32 may be to blame without it."""
    lp, some = np.random.default_rng(0).normal(size=(4, 500)), np.zeros((4, 500), bool)
    some[1, :50] = True
    tell = lambda lp, events: found_in_run(Completed(), None, 500, {"lp": lp, "discontinuous": events, **ACCEPTED}, {})
    (found,) = tell(lp, some)
    assert (found.kind, found.figure, found.limit, found.chains) == ("discontinuous", 0.025, 0.01, [1])
    assert "marginalise" in found.remedy
    assert "float64" not in found.remedy
    (everywhere,) = tell(lp.astype(np.float32), ~some)
    assert everywhere.chains == []
    assert "float64" in everywhere.remedy
    (rounded,) = tell((lp + 2.4e7).astype(np.float32), some)
    assert rounded.kind == "coarse"
    some[1, 20:] = False
    assert tell(lp, some) == []


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_density_with_a_step_is_told():
    """Of a half normal by a step of 20 nats most trajectories meet the step; a normal has none."""
    options = {"sampler": gad.default(move="nuts"), "num_warmup": 200, "num_draws": 200, "progress": False}
    step = lambda x: -0.5 * x @ x + jnp.where(x[0] > 0, 20.0, 0.0)
    tree = gad.sample(step, jnp.ones(2), **options)
    assert "discontinuous" in [record["kind"] for record in tree.attrs["findings"]]
    smooth = gad.sample(lambda x: -0.5 * x @ x, jnp.ones(2), **options)
    assert "discontinuous" not in [record["kind"] for record in smooth.attrs["findings"]]


@pytest.mark.parametrize(
    ("distinct", "chains", "told"), [(None, 4, False), (16, 16, False), (5, 16, False), (3, 16, True), (1, 2, True)]
)
def test_chains_that_began_where_others_stood(distinct, chains, told):
    found = few_starts(distinct, chains)
    assert [(one.kind, one.figure) for one in found] == ([("starts", float(distinct))] if told else [])


@pytest.mark.parametrize(("num_warmup", "told"), [(20, ["unsettled"]), (1_000, [])])
def test_a_fit_that_still_changed_is_told(num_warmup, told):
    logdensity = lambda x: -0.5 * jnp.sum((x / jnp.arange(1.0, 11.0) ** 2) ** 2)
    tree = gad.sample(logdensity, jnp.zeros(10), num_warmup=num_warmup, num_draws=200, progress=False)
    assert [record["kind"] for record in tree.attrs["findings"]] == told
