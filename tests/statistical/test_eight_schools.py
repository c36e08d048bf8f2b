"""Eight schools (Rubin 1981): whoever fails on them is told so, in the library and on the command line.

μ ~ N(0, 5²), τ ~ half-Cauchy(5) by its logarithm, y_j ~ N(θ_j, σ_j²), and θ_j = μ + τ η_j with η_j ~ N(0, 1), the
non-centred form, or θ_j ~ N(μ, τ²) as it stands, the centred one, whose funnel no fixed step size suits.

The truth needs no long run: given τ, all but τ is Gaussian, and what is left is an integral over log τ (`truth`). A run
passes where the means and standard deviations of μ and τ lie within 5 standard errors (Monte Carlo standard errors by
`arviz_stats`, Gaussian in the long run: one of its four figures fails by chance once in 400,000 runs), or where its
warnings name variables, or trajectories that diverged. Of 66 runs of 1,000 draws (11 samplers, both forms, 3 seeds) two
were outside, of six centred ones of 10,000 draws (gadMALA, NUTS) five, and each of the seven said so.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base.array import array_stats

import gadabout as gad

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
SAMPLERS = {
    "gad-mala": gad.gad_mala,
    "gad-rwm": gad.gad_rwm,
    "rwm": gad.rwm,
    "mala": gad.mala,
    "hmc": lambda: gad.hmc(10),
    "nuts": gad.nuts,
    "am": gad.am,
    "ram": gad.ram,
    "haario": gad.haario,
    "barker": gad.barker,
    "fisher-mala": gad.fisher_mala,
}


def prior(p):
    return -0.5 * (p["mu"] / 5) ** 2 + p["log_tau"] - jnp.log1p((jnp.exp(p["log_tau"]) / 5) ** 2)


def non_centred(p):
    theta = p["mu"] + jnp.exp(p["log_tau"]) * p["eta"]
    return prior(p) - 0.5 * jnp.sum(p["eta"] ** 2) - 0.5 * jnp.sum(((EFFECTS - theta) / ERRORS) ** 2)


def centred(p):
    eta = (p["eta"] - p["mu"]) / jnp.exp(p["log_tau"])
    return prior(p) - 0.5 * jnp.sum(eta**2) - 8 * p["log_tau"] - 0.5 * jnp.sum(((EFFECTS - p["eta"]) / ERRORS) ** 2)


FORMS = {"non-centred": non_centred, "centred": centred}


def truth():
    """Mean and standard deviation of μ and of τ, by the sum over a grid of log τ."""
    log_tau = np.linspace(-25, 12, 200_001)
    tau = np.exp(log_tau)
    variances = ERRORS**2 + tau[:, None] ** 2
    precision = 1 / 25 + np.sum(1 / variances, 1)
    mean = np.sum(EFFECTS / variances, 1) / precision
    log_weight = log_tau - np.log1p((tau / 5) ** 2) - 0.5 * np.sum(np.log(variances) + EFFECTS**2 / variances, 1)
    log_weight += 0.5 * (mean**2 * precision - np.log(precision))
    weight = np.exp(log_weight - log_weight.max())
    average = lambda values: np.sum(weight * values) / np.sum(weight)
    moments = {"mu": (average(mean), average(mean**2 + 1 / precision)), "tau": (average(tau), average(tau**2))}
    return {name: (first, np.sqrt(second - first**2)) for name, (first, second) in moments.items()}


TRUTH = truth()


def start(key):
    return {"mu": jax.random.normal(key), "log_tau": jnp.zeros(()), "eta": jax.random.normal(key, (8,))}


def right(tree):
    """Whether means and standard deviations of μ and τ are those of the truth, up to chance."""
    mu, log_tau = (tree["posterior"][name].values for name in ("mu", "log_tau"))
    errors = []
    for name, x in (("mu", mu), ("tau", np.exp(log_tau))):
        for method, value, exact in zip(("mean", "sd"), (x.mean(), x.std()), TRUTH[name], strict=True):
            errors.append((value - exact) / array_stats.mcse(x[None], method=method)[0])
    return bool(np.max(np.abs(errors)) < 5)


def told(tree):
    """Whether a warning names variables, or trajectories that diverged."""
    named = [finding for finding in tree.attrs["findings"] if finding["variables"] or finding["kind"] == "diverging"]
    return bool(named) and all(finding["problem"] in "\n".join(tree.attrs["warnings"]) for finding in named)


def believed_or_told(form, sampler, seed, num_draws):
    tree = gad.sample(FORMS[form], start, sampler=SAMPLERS[sampler](), seed=seed, num_draws=num_draws, progress=False)
    return right(tree) or told(tree)


FEW = [("non-centred", "mala"), ("centred", "rwm")]
MANY = [
    pytest.param(form, sampler, marks=pytest.mark.long)
    for form in FORMS
    for sampler in SAMPLERS
    if (form, sampler) not in FEW
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("form", "sampler"), FEW + MANY)
@pytest.mark.parametrize("num_draws", [1_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_the_figures_are_right_or_the_result_says_that_they_are_not(form, sampler, num_draws):
    assert all(believed_or_told(form, sampler, seed, num_draws) for seed in range(3))


def test_the_truth_is_that_of_independent_draws():
    """Prior draws weighted by their likelihood, 4 million of them: an effective number of some 700,000."""
    random = np.random.default_rng(0)
    mu, tau = 5 * random.standard_normal(4_000_000), 5 * np.abs(random.standard_cauchy(4_000_000))
    log_weight = np.zeros(len(mu))
    for y, error in zip(EFFECTS, ERRORS, strict=True):
        log_weight -= 0.5 * (np.log(error**2 + tau**2) + (y - mu) ** 2 / (error**2 + tau**2))
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    for name, x in (("mu", mu), ("tau", tau)):
        mean = np.sum(weight * x)
        assert mean == pytest.approx(TRUTH[name][0], rel=0.01)
        assert np.sqrt(np.sum(weight * (x - mean) ** 2)) == pytest.approx(TRUTH[name][1], rel=0.01)


FILE = """
import jax.numpy as jnp
from tests.statistical.test_eight_schools import FORMS

def schools(x):
    return FORMS["non-centred"]({"mu": x[0], "log_tau": x[1], "eta": x[2:]})
"""


def test_the_command_line_says_so_once(tmp_path):
    """In process, in both precisions' default; the library's own words with options in place of arguments."""
    from typer.testing import CliRunner

    from gadabout.cli.app import app

    (tmp_path / "schools.py").write_text(FILE)
    arguments = [f"{tmp_path / 'schools.py'}:schools", "--dim", "10", "--sampler", "mala", "--draws", "1000"]
    result = CliRunner().invoke(app, ["sample", *arguments, "--no-progress"])
    assert result.exit_code == 0, result.output
    warnings = [line for line in result.stdout.splitlines() if line.startswith("warning: ")]
    assert any("the ESS is below 400: x[" in line for line in warnings)
    assert all("num_draws" not in line for line in warnings)
    assert len(set(warnings)) == len(warnings)
    assert sum("the ESS is below" in line for line in warnings) == 1
