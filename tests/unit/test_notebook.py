"""In notebooks a run, a sampler and a result show themselves: tried in a kernel, as a notebook runs it."""

import pytest

import gadabout as gad

CELLS = """
import warnings
import jax.numpy as jnp
import gadabout as gad
warnings.simplefilter("ignore")
---
gad.gad_mala(target_acceptance=0.5)
---
gad.default()
---
gad.sample(lambda x: -0.5 * x @ x, jnp.zeros(2), sampler=gad.rwm(), num_warmup=200, num_draws=300, num_chains=2)
"""


@pytest.fixture(scope="module")
def cells():
    """The cells of a notebook that ran, with their outputs and every message that a kernel sent to move a bar."""
    nbformat = pytest.importorskip("nbformat", reason="no notebooks without nbclient: pip install 'gadabout[dev]'")
    nbclient = pytest.importorskip("nbclient", reason="no notebooks without nbclient: pip install 'gadabout[dev]'")
    pytest.importorskip("ipykernel", reason="no kernel without ipykernel: pip install 'gadabout[dev]'")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell.strip()) for cell in CELLS.split("---")])
    updates = []

    class Client(nbclient.NotebookClient):
        def process_message(self, msg, cell, cell_index):
            updates.extend([msg["content"]["data"]["text/html"]] if msg["msg_type"] == "update_display_data" else [])
            return super().process_message(msg, cell, cell_index)

    Client(notebook, timeout=300, kernel_name="python3").execute()
    return [*notebook.cells, updates]


def html(cell, kind):
    return "".join(out["data"].get("text/html", "") for out in cell.outputs if out["output_type"] == kind)


def test_a_sampler_shows_the_values_of_its_settings(cells):
    shown = html(cells[1], "execute_result")
    assert "<b>gad-mala</b>" in shown
    assert "adaptation.target_acceptance</td><td style='text-align:left'>0.5</td>" in shown


def test_a_plan_shows_its_stages(cells):
    shown = html(cells[2], "execute_result")
    assert shown.index("SearchStarts") < shown.index("LearnGaussian") < shown.index("ChooseMove")
    assert "16 chains" in shown


def test_a_run_shows_a_bar_for_each_stage_in_one_place_and_then_its_result(cells):
    bars = html(cells[3], "display_data")  # one output, which updates changed
    assert bars.count("<progress") == 2
    assert "<progress value='200' max='200'></progress> warmup: 200 of 200 iterations" in bars
    assert "<progress value='300' max='300'></progress> sampling: 300 of 300 iterations" in bars
    assert len(cells[4]) >= 1
    assert not [out for out in cells[3].outputs if out["output_type"] == "stream"]
    assert "xarray.DataTree" in html(cells[3], "execute_result")


def test_names_are_escaped():
    sampler = gad.Sampler("<script>", lambda n, learned: None, gad.adaptations.NoAdaptation())
    assert "<script>" not in sampler._repr_html_()
