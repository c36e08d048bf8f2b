"""Every example of the README and of CONTRIBUTING runs, and the own loop of its guide."""

import re
import shlex
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp

import gadabout as gad
from gadabout.algorithms import PYTHON_RECIPES, RECIPES
from tests.laws.registry import SAMPLERS, UNADJUSTED

ROOT = Path(__file__).parents[2]


def blocks(document, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)


def test_python_examples_of_the_readme(capsys, monkeypatch, tmp_path):
    """In one namespace, as a reader would type them, without a warning; they leave a store where they are run."""
    monkeypatch.chdir(tmp_path)
    namespace: dict = {"__name__": "readme"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        for block in blocks("README.md", "python"):
            exec(compile(block, "README.md", "exec"), namespace)
    assert [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)] == []
    assert "r_hat" in capsys.readouterr().out
    scales = jnp.exp(namespace["tree"]["learned"]["proposal.log_scale"].values)
    assert 5 < scales[1] / scales[0] < 20


def test_the_readme_has_130_lines_at_most():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 130


def test_the_own_loop_of_the_guide():
    """It runs on the imports of its page alone."""
    cells = blocks("docs/guides/own_proposal.md", r"\{code-cell\} ipython3")
    namespace: dict = {"__name__": "guide", "jax": jax, "jnp": jnp, "gad": gad}
    exec(compile(next(cell for cell in cells if "sampler.step" in cell), "own_proposal.md", "exec"), namespace)
    assert namespace["positions"].shape == (1_000, 4, 3)
    assert namespace["acceptance"].shape == (1_000, 4)
    assert (namespace["positions"].std(0) > 0.3).all()


def test_the_users_own_proposal_has_fifteen_lines_at_most():
    (block,) = [block for block in blocks("README.md", "python") if "class StudentWalk" in block]
    definition = block[block.index("class StudentWalk") : block.index("tree = ")]
    assert len(definition.strip().splitlines()) <= 15


def test_the_recipe_of_contributing():
    (block,) = blocks("CONTRIBUTING.md", "python")
    namespace: dict = {"__name__": "contributing"}
    exec(compile(block, "CONTRIBUTING.md", "exec"), namespace)
    tree = gad.sample(
        lambda x: -0.5 * x @ x, jnp.zeros(2), sampler=namespace["skeleton"](), num_draws=500, progress=False
    )
    assert tree["posterior"]["x"].shape == (4, 500, 2)


def command_lines():
    (block,) = [block for block in blocks("README.md", "sh") if block.startswith("gadabout")]
    return [shlex.split(line)[1:] for line in block.splitlines()]


def test_command_lines_of_the_readme(tmp_path, monkeypatch, data_home):
    """One after another, as a reader would type them."""
    from typer.testing import CliRunner

    from gadabout.cli.app import app

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GADABOUT_DATA", str(data_home.resolve()))
    Path("my_model.py").write_text("def log_density(x):\n    return -0.5 * x @ x\n")
    shorter = {
        "sample": ["--warmup", "500"],
        "bench overhead": ["--iterations", "500", "--repeats", "1"],
        "bench peers": ["--peer", "gadabout", "--draws", "100", "--repeats", "1"],
        "verify": ["refusals"],
    }
    for arguments in command_lines():
        command = " ".join(arguments[: 2 if arguments[0] == "bench" else 1])
        result = CliRunner().invoke(app, [*arguments, *shorter.get(command, [])])
        assert result.exit_code == 0, (arguments, result.output)
    assert Path("german.json").is_file()
    assert Path("german.zarr").is_dir()


def test_every_recipe_is_under_the_laws():
    names = {sampler.name for sampler in (SAMPLERS | UNADJUSTED).values()}
    names |= {"block", "gibbs"}  # in a cycle and a mix there, since alone they leave some coordinate where it is
    names |= {"ula", "sgld", "sghmc"}  # their step is psgld's and sgnht's; their own law is in test_stochastic_gradient
    assert {recipe().name for recipe in RECIPES.values()} | set(PYTHON_RECIPES) <= names
