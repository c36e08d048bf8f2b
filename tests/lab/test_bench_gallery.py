"""Seconds of the gallery's models: which runs are made, what is given up, and what a run says of a page."""

import json

import numpy as np
import pytest

from gadabout.lab.peers.gallery import LIMIT, compare, main, model_of, pages

PAGE = """# A page
```{code-cell} ipython3
import jax.numpy as jnp
import gadabout as gad

model = gad.Model(lambda v: -0.5 * jnp.log(v["scale"]) ** 2 - jnp.log(v["scale"]), {"scale": 1.0},
                  transforms={"scale": "positive"})
```

```{code-cell} ipython3
raise AssertionError("only the first cell is run")
```
"""


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "scale.md"
    path.write_text(PAGE)
    (tmp_path / "index.md").write_text("# No cells\n")
    return path


def stand_in(q, means):
    """A stand-in for processes: q of 1,000 draws and the mean of the only variable, by peer."""

    def run(known):
        figures = {"mean": [means[known["peer"]]], "mean_error": [0.3], "variance": [1.0], "variance_error": [0.4]}
        share = q[known["peer"]] * known["draws"] / 1_000
        return {"seconds": 4.0, "n": 1, "q": share, "rhat": 1.0, "good": True, "findings": [], "figures": figures}

    return run


def test_each_runs_once_and_then_with_the_draws_that_it_needs(page, tmp_path):
    q, means, file = {"gadabout": 2_000.0, "numpyro": 400.0}, {"gadabout": 1.0, "numpyro": 2.2}, tmp_path / "rows.jsonl"
    ours, theirs = compare(page, (1,), file, stand_in(q, means))
    assert [run["draws"] for run in ours["runs"] + theirs["runs"]] == [600, 3_000]
    assert ours["apart"] == theirs["apart"] == pytest.approx(1.2 / np.hypot(0.3, 0.3))
    assert (ours["seconds"], ours["wanted"], ours["good"]) == (4.0, 4.0, 1)
    again = compare(page, (1,), file, lambda known: pytest.fail("rows are kept"))
    assert again == [ours, theirs]
    page.write_text(PAGE.replace("-0.5", "-0.6"))
    assert compare(page, (1,), file, stand_in(q, {"gadabout": 3.0, "numpyro": 2.2}))[0]["figures"]["mean"] == [3.0]


def test_who_needs_too_many_draws_counts_as_the_limit(page):
    run = stand_in({"gadabout": 2_000.0, "numpyro": 1.0}, dict.fromkeys(("gadabout", "numpyro"), 1.0))
    _, theirs = compare(page, (1,), run=run)
    assert (theirs["wanted"], theirs["good"]) == (LIMIT, 0)


NUMPYRO = """# A page
```{code-cell} ipython3
import numpyro
import numpyro.distributions as dist
import gadabout as gad


def lognormal():
    numpyro.sample("scale", dist.LogNormal(0, 1))


model = gad.models.numpyro(lognormal)
```
"""


def test_the_kernel_runs_beside_them_on_pages_of_numpyro_alone(page):
    q = dict.fromkeys(("gadabout", "numpyro", "numpyro-kernel"), 2_000.0)
    run = stand_in(q, dict.fromkeys(q, 1.0))
    assert [row["peer"] for row in compare(page, (1,), kernel=True, run=run)] == ["gadabout", "numpyro"]
    page.write_text(NUMPYRO)
    assert [row["peer"] for row in compare(page, (1,), kernel=True, run=run)] == list(q)
    assert [row["peer"] for row in compare(page, (1,), run=run)] == ["gadabout", "numpyro"]


@pytest.mark.parametrize("peer", ["gadabout", "numpyro", "numpyro-kernel"])
def test_a_run_is_judged_in_the_users_variables(page, peer, capsys):
    """Its mean is e^½. Five standard errors of at most 0.06: a false alarm in 2 million, an error of 0.6 is found."""
    if peer == "numpyro-kernel":
        page.write_text(NUMPYRO)
    main({"page": str(page), "peer": peer, "chains": 16 if peer == "gadabout" else 4, "draws": 1_000, "seed": 1})
    row = json.loads(capsys.readouterr().out.splitlines()[-1])
    figures = row["figures"]
    assert row["n"] == 1
    assert row["q"] > 500
    assert row["seconds"] > 0
    assert abs(figures["mean"][0] - np.exp(0.5)) < 5 * figures["mean_error"][0]
    assert figures["mean_error"][0] < 0.06


def test_pages_are_found_and_errors_name_them(page, tmp_path):
    assert pages(tmp_path) == [page]
    with pytest.raises(ValueError, match=r"no page nowhere.*scale"):
        pages(tmp_path, ["nowhere"])
    page.write_text(PAGE.replace("model =", "other ="))
    with pytest.raises(ValueError, match=r"scale\.md must make `model`"):
        model_of(page)
