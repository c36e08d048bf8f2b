"""The page of a run: what stands on it, that it needs nothing else, and how much of a run it looks at."""

import itertools
import json
import re
import shutil
import warnings
from html.parser import HTMLParser

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import gadabout as gad
from gadabout.cli.app import app
from gadabout.cli.terminal import each_chain
from gadabout.reporting import pictures, reading, report
from gadabout.reporting.figure import draw
from gadabout.reporting.summary import summarise
from gadabout.store.integrity import SEAL, seal

NASTY = "slope <b>&$x$"
LABELS = ["first", "<script>alert(1)</script>", "$third$"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A finished run in done.zarr, what a kill leaves in begun.zarr (early) and killed.zarr (late), and the tree."""
    folder = tmp_path_factory.mktemp("runs")
    model = gad.Model(
        lambda p: -0.5 * jnp.sum((p[NASTY] / jnp.array([0.1, 1.0, 3.0])) ** 2) - 0.5 * p["b"] ** 2,
        start=lambda key: {NASTY: jax.random.normal(key, (3,)), "b": jnp.zeros(())},
        dims={NASTY: ["input"]},
        coords={"input": LABELS},
    )

    def copy(progress):
        if progress.stage == "sampling" and not (folder / "begun.zarr").exists():
            shutil.copytree(folder / "done.zarr", folder / "begun.zarr")

    settings = {"sampler": gad.gad_mala(), "num_warmup": 200, "num_draws": 300, "progress": False}
    tree = gad.sample(model, out=folder / "done.zarr", callback=copy, **settings)
    shutil.copytree(folder / "done.zarr", folder / "killed.zarr")
    root = folder / "killed.zarr" / "zarr.json"
    node, members = json.loads(root.read_text()), json.loads(root.read_text())["consolidated_metadata"]["metadata"]
    late = {path: member for path, member in members.items() if path.split("/")[0] not in ("learned", "diagnostics")}
    begun = json.loads((folder / "begun.zarr" / "zarr.json").read_text())
    node["attributes"], node["consolidated_metadata"]["metadata"] = begun["attributes"], late
    node[SEAL]["sha256"] = seal(late)
    root.write_text(json.dumps(node))
    return folder, tree


class Page(HTMLParser):
    """The tags of a page, what they refer to, and the text between them."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.references, self.words = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.references += [value for name, value in attrs if name in ("src", "href", "srcset", "action")]

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def page_of(run, out, **how):
    return Page(report(run, out, **how).read_text(encoding="utf-8"))


def test_the_page_needs_nothing_beside_it_and_shows_names_as_they_are(runs, tmp_path):
    folder, tree = runs
    page = page_of(folder / "done.zarr", tmp_path / "page.html")
    assert all(reference.startswith("data:") for reference in page.references)
    assert not {"script", "b script", "iframe", "object"} & set(page.tags)
    assert "url(" not in page.text
    assert f"{NASTY}[{LABELS[1]}]" in page.text
    headings = ("Warnings", "Summary", "Traces and ranks", "ESS against draws", "Log density")
    headings += ("Acceptance of each chain", "Adaptation", "What was learned", "Costs", "How it was made")
    assert all(heading in page.text for heading in headings)
    for finding in tree.attrs["findings"]:
        assert " ".join(finding["problem"].split()) in page.text
        assert f"What to do: {finding['remedy']}" in page.text
    # four traces, four ranks, ESS, two log densities, acceptance of chains and in warm-up, β, entropy, bound, L, L Lᵀ
    assert page.tags.count("img") == 18


def test_the_table_has_the_figures_of_the_draws(runs, tmp_path):
    _, tree = runs
    b = tree["posterior"]["b"].values
    text = page_of(tree, tmp_path / "page.html").text
    row = re.search(r" b (-?[\d.]+) ([\d.]+) ([\d.]+) \S+ \S+ ([\d,]+) [\d,]+ ([\d.]+) ", text)
    mean, sd, mcse, bulk, rhat = (float(figure.replace(",", "")) for figure in row.groups())
    assert mean == pytest.approx(b.mean(), rel=1e-3)
    assert sd == pytest.approx(b.std(ddof=1), rel=1e-3)
    assert mcse == pytest.approx(sd / np.sqrt(bulk), rel=0.5)
    assert rhat == pytest.approx(float(tree["diagnostics/rhat"]["b"]), abs=6e-4)


def test_a_killed_run_has_its_page_too(runs, tmp_path):
    folder, tree = runs
    assert "diagnostics" not in xr.open_datatree(folder / "killed.zarr", engine="zarr").children
    page = page_of(folder / "killed.zarr", tmp_path / "page.html", title="My <run>")
    assert page.text.count("My <run>") == 2  # the title and the heading
    assert "the run has not ended" in page.text
    assert "4 × 300" in page.text
    kinds = {finding["kind"]: finding["problem"] for finding in tree.attrs["findings"]}
    assert all(" ".join(kinds[kind].split()) in page.text for kind in kinds.keys() & {"rhat", "ess"})
    assert "There are no draws to judge." in page_of(folder / "begun.zarr", tmp_path / "page.html").text
    assert "num_draws 300" in page_of(folder / "begun.zarr", tmp_path / "page.html").text


def test_a_run_without_draws_and_one_that_is_not_ours(runs, tmp_path):
    _, tree = runs
    warmup = xr.DataTree.from_dict({"/warmup_sample_stats": tree["warmup_sample_stats"].to_dataset()})
    assert "There are no draws to judge." in page_of(warmup, tmp_path / "page.html").text
    foreign = xr.DataTree.from_dict({"/posterior": tree["posterior"].to_dataset()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Zarr, on consolidated metadata
        foreign.to_zarr(tmp_path / "foreign.zarr")
    assert "What was learned" not in page_of(tmp_path / "foreign.zarr", tmp_path / "page.html").text


def wide_tree(n, draws=400, shift=0.0):
    x = np.random.default_rng(0).normal(size=(4, draws, n))
    x[2] += shift
    posterior = xr.Dataset({"x": (("chain", "draw", "i"), x)}, {"chain": range(4), "draw": range(draws), "i": range(n)})
    return xr.DataTree.from_dict({"/posterior": posterior})


def test_chains_that_stand_still_apart_have_an_infinite_rhat(tmp_path):
    tree = wide_tree(2, draws=10)
    tree["posterior"]["x"][:] = np.arange(4.0)[:, None, None]
    page = page_of(tree, tmp_path / "page.html")
    assert "inf largest R-hat" in page.text
    assert "ESS against draws" not in page.text  # ten draws say nothing of it


def test_what_is_looked_at_is_bounded_and_said(monkeypatch, tmp_path):
    monkeypatch.setattr(reading, "MOST_VALUES", 4 * 100 * reading.MOST_ROWS)
    monkeypatch.setattr(reading, "PIECE_BYTES", 50_000)
    tree = wide_tree(90)
    draws = reading.draws_of_run(tree)
    assert draws.values.size <= reading.MOST_VALUES
    assert (draws.spacing, len(draws.shown), draws.judged) == (4, 40, 9)
    np.testing.assert_array_equal(draws.values, tree["posterior"]["x"].values[:, ::4][:, :, draws.shown])
    text = page_of(tree, tmp_path / "page.html").text
    assert "the 40 of 90 coordinates with the smallest ESS" in text
    assert "are of one draw in 4." in text
    assert "ESS and R-hat are of one draw in 9." in text
    assert reading.statistic(tree, "posterior", "x").size == 0  # not of dimensions (chain, draw)


def test_ranks_leave_the_band_where_a_chain_lies_apart():
    """Of 20 coordinates none leaves the band, where one in a hundred may; half a standard deviation does."""

    def leave(tree):
        draws = reading.draws_of_run(tree)
        out = []
        for i in range(len(draws.shown)):
            (axes,) = pictures.ranks(draws, i).axes[:1]
            half = axes.collections[0].get_paths()[0].vertices[:, 1].max()
            out.append(any(np.abs(line.get_ydata()).max() > half for line in axes.lines))
        return out

    assert sum(leave(wide_tree(20))) <= 1
    assert all(leave(wide_tree(5, shift=0.5)))


def test_the_terminal_and_the_plot_show_every_chain(runs):
    _, tree = runs
    rates = tree["sample_stats"]["acceptance_rate"].values.mean(1)
    (line,) = each_chain(tree, 80)
    assert [float(rate) for rate in line.split()[2:]] == pytest.approx(rates, abs=0.0051)
    assert each_chain(tree, len(line) - 1) == []
    summary = summarise(tree)
    last = draw(tree, summary, "mine", None).axes[-4:]
    trace, ranks = next((a, b) for a, b in itertools.pairwise(last) if a.get_xlabel() == "draw")
    assert trace.get_ylabel() == summary.names[summary.worst(1)[0]]
    assert (len(trace.lines), len(ranks.lines), ranks.get_xlim()) == (4, 4, (0, 1))


def test_the_command_writes_beside_the_store_and_refuses_what_it_cannot_replace(runs, tmp_path):
    folder, _ = runs
    run = lambda *arguments: CliRunner().invoke(app, ["report", *map(str, arguments)])
    done = run(folder / "done.zarr")
    assert (done.exit_code, done.stdout) == (0, f"report written to {folder / 'done.html'}\n")
    again = run(folder / "done.zarr", "--out", folder / "done.html", "--title", "Again")
    assert again.exit_code == 0
    found = json.loads(run(folder / "killed.zarr", "--out", tmp_path / "page.html", "--json", "-").stdout)
    (tmp_path / "page.html").unlink()
    assert (found["ending"], found["num_draws"], found["coordinates"]) == ("running", 300, 4)
    assert found["variables"]["b"].keys() == {"mean", "sd", "mcse", "ess_bulk", "ess_tail", "rhat"}
    assert "<h1>Again</h1>" in (folder / "done.html").read_text(encoding="utf-8")
    (tmp_path / "link.html").symlink_to(folder / "done.html")
    refusals = {
        (folder / "none.zarr", "--out", tmp_path / "page.html"): "there is no run at",
        (folder / "done.zarr", "--out", tmp_path): "is a folder",
        (folder / "done.zarr", "--out", tmp_path / "link.html"): "a symbolic link",
        (folder / "done.zarr", "--out", tmp_path / "none" / "page.html"): "does not exist",
        (folder / "done.html", "--out", tmp_path / "page.html"): "nothing that xarray opens",
    }
    for arguments, words in refusals.items():
        refused = run(*arguments)
        assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1), refused.output
        assert words in refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.html"]


def test_what_is_no_run_is_refused(runs, tmp_path):
    with pytest.raises(TypeError, match="run must be a result"):
        report(3, tmp_path / "page.html")
    with pytest.raises(TypeError, match="out must be the name"):
        report(runs[1])


@pytest.fixture
def browser():
    """Chromium of the system, without a window."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        pytest.skip("there is no Chromium: install the system's package, such as `apt-get install chromium`")
    with sync_api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


def test_a_browser_shows_all_of_it(runs, tmp_path, browser):
    """No message on the console, every image there, nothing wider than a telephone, dark where that is wanted."""
    page, messages = report(runs[0] / "done.zarr", tmp_path / "page.html"), []
    for width in (1200, 390):
        shown = browser.new_page(viewport={"width": width, "height": 800}, color_scheme="dark")
        shown.on("console", lambda message: messages.append(message.text))
        shown.on("pageerror", lambda error: messages.append(str(error)))
        shown.on("request", lambda request: messages.extend([request.url] if request.url[:4] == "http" else []))
        shown.goto(page.as_uri())
        images = shown.evaluate("[...document.images].map(image => image.complete && image.naturalWidth > 100)")
        assert (len(images), all(images)) == (18, True)
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 28)"
    assert messages == []
