"""On devices whose default is to round factors before they multiply them, products are those of whole numbers."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.driver.programs import forget, program
from gadabout.precision import whole_products
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


def test_nothing_changes_on_a_processor():
    assert "HIGHEST" not in lowered(lambda x: Target(log_density).at(x, 1), X[0])
    assert "HIGHEST" not in program(jnp.matmul).lower(X, X.T).as_text()


def test_every_product_of_a_run(gpu, tmp_path):
    """All programs of a run of the default, from its starts to what is said of its draws."""
    jax.config.update("jax_dump_ir_to", str(tmp_path))
    try:
        gad.sample(log_density, jnp.zeros(3, jnp.float32), num_draws=50, seed=1)
    finally:
        jax.config.update("jax_dump_ir_to", None)
    found = [product for path in tmp_path.glob("*.mlir") for product in products(path.read_text())]
    assert len(found) > 50
    assert [product for product in found if "HIGHEST, HIGHEST" not in product] == []
