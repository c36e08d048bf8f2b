"""The harness of the paper's tables, on little: rows, notes, resumption, and what the command refuses."""

import dataclasses
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from gadabout.algorithms import hmc, rwm
from gadabout.cli.app import app
from gadabout.lab.paper import EXPERIMENTS, Session, Watcher, catalogue, session
from gadabout.lab.paper.methods import Method, methods
from gadabout.lab.paper.published import PAPER, SLIDES
from gadabout.lab.paper.table import markdown, table

ALONE = Method("RWM", rwm, num_warmup=60, num_draws=80)
TOGETHER = Method("HMC-5", lambda: hmc(5), num_warmup=60, num_draws=80, together=True)
TABLES = {"neal", "caravan", "australian", "ripley", "pima", "heart", "german", "mnist-56-as-published"}


class Record(Watcher):
    """Remembers the runs that were made, and interrupts in place of the run numbered `stop`."""

    def __init__(self, stop=None):
        self.stop, self.begun, self.units = stop, [], []

    def begin(self, name, total, there):
        self.begun.append((total, there))

    def unit(self, unit):
        if len(self.units) == self.stop:
            raise KeyboardInterrupt
        self.units.append(str(unit))


@pytest.fixture
def small(monkeypatch):
    """A table of two methods on a target that needs no data."""
    monkeypatch.setattr(session, "methods", lambda target: [ALONE, TOGETHER])
    return lambda watcher, out, **settings: table(
        Session(out, watcher=watcher, **settings), "small", {"correlated-2d": "Two dimensions"}, num_repeats=4
    )


def test_repeats_are_interleaved_and_an_interrupted_run_goes_on(tmp_path, small):
    first = Record(stop=4)
    with pytest.raises(KeyboardInterrupt):
        small(first, tmp_path)
    assert first.units == [
        "correlated-2d · RWM · repeat 1",
        "correlated-2d · HMC-5 · repeats 1 to 4 together",
        "correlated-2d · HMC-5 · timing 1",
        "correlated-2d · RWM · repeat 2",
    ]
    second = Record()
    outcome = small(second, tmp_path)
    assert second.begun == [(8, 4)]
    assert second.units == [
        "correlated-2d · HMC-5 · timing 2",
        "correlated-2d · RWM · repeat 3",
        "correlated-2d · HMC-5 · timing 3",
        "correlated-2d · RWM · repeat 4",
    ]
    third = Record()
    assert small(third, tmp_path).rows == outcome.rows
    assert third.units == []
    assert not list(tmp_path.rglob(".*"))


def test_rows_are_averages_over_repeats(tmp_path, small):
    alone, together = small(Record(), tmp_path).rows
    repeats = Session(tmp_path).found("correlated-2d", ALONE, 4)
    ess, seconds = (np.array([repeat.account[key] for repeat in repeats]) for key in ("ess", "seconds"))
    speeds = [e["min"] / s for e, s in zip(ess, seconds, strict=True)]
    assert alone["ours"]["min_ess_per_second"]["mean"] == pytest.approx(np.mean(speeds))
    assert alone["ours"]["min_ess_per_second"]["sd"] == pytest.approx(np.std(speeds, ddof=1))
    assert alone["ours"]["repeats"] == together["ours"]["repeats"] == 4
    assert together["ours"]["gradients_per_draw"] == 5
    assert together["ours"]["gradient_evaluations"] == 5 * (60 + 20_000)
    assert "together" in together["note"]
    assert "80 draws" in alone["note"]
    assert len({repeat.account["ess"]["min"] for repeat in repeats}) == 4  # each from noise of its own


def test_repeats_of_other_settings_are_made_anew(tmp_path, small, monkeypatch):
    small(Record(), tmp_path)
    longer = dataclasses.replace(ALONE, num_draws=90)
    monkeypatch.setattr(session, "methods", lambda target: [longer, TOGETHER])
    again = Record()
    small(again, tmp_path)
    assert again.units == [f"correlated-2d · RWM · repeat {i}" for i in (1, 2, 3, 4)]


def test_settings_of_before_find_their_own_repeats(tmp_path, small, monkeypatch):
    """The seed is the same, the draws are not: arrays of one method's settings never replace those of others."""
    small(Record(), tmp_path)
    before = Session(tmp_path).found("correlated-2d", ALONE, 4)
    longer = dataclasses.replace(ALONE, num_draws=90)
    monkeypatch.setattr(session, "methods", lambda target: [longer, TOGETHER])
    small(Record(), tmp_path)
    after = Session(tmp_path).found("correlated-2d", ALONE, 4)
    assert [repeat.account for repeat in after] == [repeat.account for repeat in before]
    for old, new in zip(before, after, strict=True):
        assert old.series.keys() == new.series.keys() >= {"lp", "last"}
        assert old.series["lp"].shape == (80,)
        for name, values in old.series.items():
            np.testing.assert_array_equal(new.series[name], values)
    assert Session(tmp_path).found("correlated-2d", longer, 1)[0].series["lp"].shape == (90,)


def test_a_repeat_whose_arrays_were_not_written_is_made_again(tmp_path, small, monkeypatch):
    def full(*arguments, **arrays):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full)
        with pytest.raises(OSError, match="no space left"):
            small(Record(), tmp_path)
    again = Record()
    small(again, tmp_path)
    assert again.begun == [(8, 0)]


def test_a_table_of_fewer_repeats_uses_the_first_of_them(tmp_path, small):
    small(Record(), tmp_path)
    few = Record()
    rows = small(few, tmp_path, repeats=2).rows
    assert few.units == []
    assert [row["ours"]["repeats"] for row in rows] == [2, 2]


def test_one_hmc_is_printed_and_the_papers_own(tmp_path, monkeypatch):
    rows = [dataclasses.replace(TOGETHER, label=f"HMC-{k}", together=False) for k in (5, 10, 20)]
    monkeypatch.setattr(session, "methods", lambda target: rows)
    outcome = table(Session(tmp_path), "small", {"neal": "Neal"}, num_repeats=1)
    best = max(outcome.rows, key=lambda row: row["ours"]["min_ess_per_second"]["mean"])["method"]
    assert {row["method"] for row in outcome.rows if row["printed"]} == {best, "HMC-20"}
    lines = outcome.markdown.splitlines()
    place = next(i for i, line in enumerate(lines) if line.startswith("| HMC-20"))
    assert "*306, 1,538, 19,732*" in lines[place + 1]


def test_a_row_reads_as_the_paper_prints_it():
    published = PAPER["neal"]["gadMALAf"].as_json()
    more = {"bulk_ess": {"min": 1.0}, "square_ess": {"min": 2.0}, "gradient_evaluations": 3, "gradients_per_draw": 4.0}
    ours = published | more | {"compile_seconds": 5.0}
    text = markdown([{"method": "gadMALAf", "ours": ours, "published": published, "note": None, "printed": True}])
    assert "| 8.7 | 0.556 | 1,413, 1,987, 2,581 | 162 (15.1) |" in text


def test_the_slides_row_stands_below_the_papers_and_the_quick_version_has_no_times():
    published, slides = PAPER["neal"]["gadMALAf"].as_json(), SLIDES["neal"]["gadMALAf"].as_json()
    more = {"bulk_ess": {"min": 1.0}, "square_ess": {"min": 2.0}, "gradient_evaluations": 3, "gradients_per_draw": 4.0}
    row = {"method": "gadMALAf", "ours": published | more | {"compile_seconds": 5.0}, "note": None, "printed": True}
    panel = [row | {"published": published, "slides": slides}]
    lines = markdown(panel).splitlines()
    assert lines[3].startswith("| *published* |")
    assert lines[4].startswith("| *slides* | *8.7* | *0.563* | *1,431, 2,001, 2,470* | *165 (18.8)* |")
    quick = markdown(panel, timed=False).splitlines()
    assert (
        quick[0]
        == "| Method | Accept | ESS (min, med, max) | Bulk ESS, min | ESS of (x − mean)², min | Gradients | per draw |"
    )
    assert quick[4].startswith("| *slides* | *0.563* | *1,431, 2,001, 2,470* |  |")
    assert {line.count("|") for line in quick} == {8}


def test_every_published_row_has_one_of_ours():
    assert set(PAPER) == TABLES
    for target, rows in PAPER.items():
        assert set(rows) <= {method.published for method in methods(target)}
        for published in rows.values():
            assert list(published.ess) == sorted(published.ess)
            # the printed ratio is the mean of ratios: within some 35 % of the ratio of means
            assert published.ess[0] / published.seconds == pytest.approx(
                published.min_ess_per_second, rel=0.35, abs=1e-3
            )
    assert set(SLIDES) == {"neal", "caravan"}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["table8"], "table7"),
        (["table3", "--repeats", "0"], "--repeats"),
        (["table3", "--out", "{file}"], "--out"),
        (["table3", "--out", "{folder}"], "rows.jsonl is not a row; remove the line"),
    ],
)
def test_bad_arguments_are_one_line(tmp_path, arguments, named):
    file = tmp_path / "file"
    file.write_text("")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "rows.jsonl").write_text("no\n")
    result = CliRunner().invoke(app, ["reproduce", *(part.format(file=file, folder=tmp_path) for part in arguments)])
    assert result.exit_code == 2
    assert named in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_the_command_writes_tables_and_json(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "methods", lambda target: [dataclasses.replace(ALONE, label="gadMALAf")])
    monkeypatch.setitem(catalogue.TABLES, "table3", catalogue.Table({"correlated-2d": "Two"}))
    arguments = ["reproduce", "table3", "--repeats", "2", "--out", str(tmp_path), "--json", str(tmp_path / "t.json")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "| gadMALAf" in result.stdout
    assert "2/2" in result.stderr
    assert (tmp_path / "table3.md").read_text() in result.stdout
    document = json.loads((tmp_path / "t.json").read_text())
    assert document["name"] == "table3"
    (row,) = document["rows"]
    assert row.keys() >= {"target", "method", "published", "ours"}
    assert row["ours"].keys() >= {"seconds", "acceptance_rate", "ess", "min_ess_per_second"}
    assert row["ours"]["min_ess_per_second"].keys() == {"mean", "sd"}


@pytest.mark.long
def test_the_quick_version_makes_everything(tmp_path, data_home):
    arguments = ["reproduce", "all", "--quick", "--out", str(tmp_path), "--data-home", str(data_home)]
    result = CliRunner().invoke(app, [*arguments, "--json", str(tmp_path / "all.json")])
    assert result.exit_code == 0, result.output
    assert {path.stem for path in tmp_path.glob("*.md")} == set(EXPERIMENTS)
    assert len(list(tmp_path.glob("table*.md"))) == 7
    assert len(list(tmp_path.glob("figure*.png"))) >= 7
    document = json.loads((tmp_path / "all.json").read_text())
    assert {row["method"] for row in document["rows"] if row["target"] == "neal"} == {m.label for m in methods("neal")}
    assert {row["target"] for row in document["rows"] if row["method"] == "gadMALAf"} == {*TABLES, "mnist-56"}
