"""On devices whose default is to round factors before they multiply them, products are those of whole numbers."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.precision import whole_products
from gadabout.programs import forget
from gadabout.target import Target

PRODUCT = re.compile(r"stablehlo\.dot_general.*")


@pytest.fixture
def gpu(monkeypatch):
    """What is traced is traced as for a GPU; it runs on the processor all the same."""
    forget()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    yield
    forget()


def products(text: str) -> list[str]:
    return PRODUCT.findall(text)


def lowered(function, *arguments) -> str:
    return jax.jit(function).lower(*arguments).as_text()


X = jnp.asarray(np.random.default_rng(1).normal(size=(40, 3)), jnp.float32)


def log_density(beta):
    return -jnp.sum(jax.nn.softplus(X @ beta)) - beta @ beta / 2


def test_log_densities_and_gradients(gpu):
    text = lowered(lambda x: Target(log_density).at(x, 1), X[0])
    assert len(products(text)) >= 3
    assert all("precision = [HIGHEST, HIGHEST]" in product for product in products(text))


def test_what_the_user_asks_for_stays(gpu):
    with jax.default_matmul_precision("default"), whole_products():
        assert "HIGHEST" not in lowered(jnp.matmul, X, X.T)


def dumped(folder, **settings) -> list[str]:
    """The products of all programs of a run, from its starts to what is said of its draws."""
    jax.config.update("jax_dump_ir_to", str(folder))
    try:
        gad.sample(log_density, jnp.zeros(3, jnp.float32), num_draws=50, seed=1, progress=False, **settings)
    finally:
        jax.config.update("jax_dump_ir_to", None)
    return [product for path in folder.glob("*.mlir") for product in products(path.read_text())]


RUNS = pytest.mark.parametrize(
    ("sampler", "least"), [(gad.default(), 6), (gad.gad_mala(), 20)], ids=["default", "gad-mala"]
)


def test_nothing_changes_on_a_processor(tmp_path):
    assert "HIGHEST" not in lowered(lambda x: Target(log_density).at(x, 1), X[0])
    forget()
    assert "HIGHEST" not in " ".join(dumped(tmp_path, sampler=gad.gad_mala(), num_warmup=50))


@RUNS
def test_every_product_of_a_run(gpu, tmp_path, sampler, least):
    """`least` of them are there: those of the density, where the sampler is on the host."""
    found = dumped(tmp_path, sampler=sampler, num_warmup=50)
    assert len(found) >= least
    assert [product for product in found if "HIGHEST, HIGHEST" not in product] == []
