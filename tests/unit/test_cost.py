"""What an iteration costs: evaluations of the target and O(n²) products, counted in the traced program."""

import jax
import jax.numpy as jnp
import pytest

import gadabout as gad
from gadabout.executables import operations

N = 17


def every_equation(jaxpr):
    for equation in jaxpr.eqns:
        yield equation
        for parameter in equation.params.values():
            for inner in parameter if isinstance(parameter, tuple | list) else (parameter,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from every_equation(inner)


def square_products(sampler, adapt):
    """Products in which an n × n matrix is read or made: matrix by vector, and vector by vector."""
    target = gad.Target(lambda x: -0.5 * x @ x)
    state = sampler.init(target, jnp.zeros((1, N)))
    jaxpr = jax.make_jaxpr(lambda key, state: sampler.step(key, state, target, adapt))(jax.random.key(0), state)
    products = [e for e in every_equation(jaxpr.jaxpr) if e.primitive.name == "dot_general"]
    shapes = [[v.aval.shape for v in (*e.invars, *e.outvars)] for e in products]
    return sum(any(shape.count(N) == 2 for shape in shapes_of_one) for shapes_of_one in shapes)


def test_gad_mala_fast_makes_four_products_adapting_and_two_afterwards():
    assert square_products(gad.gad_mala(), adapt=True) == 4
    assert square_products(gad.gad_mala(), adapt=False) == 2


def test_the_count_of_products_finds_more():
    """The same gradient by automatic differentiation, or through the Hessian, costs more."""
    assert square_products(gad.gad_mala("exact"), adapt=True) > 4


def flops(function, *arguments):
    return jax.jit(function).lower(*arguments).compile().cost_analysis()["flops"]


@pytest.mark.parametrize(
    ("sampler", "adapting", "sampling"),
    [
        (gad.gad_mala(), 1.0, 1.0),
        (gad.gad_mala("exact"), 2.0, 1.0),  # and one Hessian-vector product, about one gradient
        (gad.gad_rwm(), 1.0, 0.5),  # afterwards the value alone
        (gad.mala(), 1.0, 1.0),
        (gad.rwm(), 0.5, 0.5),
    ],
    ids=["gad-mala", "gad-mala-exact", "gad-rwm", "mala", "rwm"],
)
def test_target_evaluations_per_iteration(sampler, adapting, sampling):
    """Flops of an iteration over flops of one value and gradient, on a target that dwarfs the rest."""
    rows = jax.random.normal(jax.random.key(0), (20_000, 5))
    log_density = lambda x: -jnp.sum((rows @ x) ** 4)
    target = gad.Target(log_density)
    one = flops(jax.value_and_grad(log_density), jnp.ones(5))
    state = sampler.init(target, jnp.zeros((1, 5)))
    for adapt, expected in ((True, adapting), (False, sampling)):
        step = lambda key, state: sampler.step(key, state, target, adapt)  # noqa: B023
        assert flops(step, jax.random.key(0), state) / one == pytest.approx(expected, rel=0.25)


def test_operations_are_counted_where_the_client_of_a_device_counts_none(monkeypatch):
    """As that of a GPU: what seems to cost nothing would have the default fit standard deviations alone."""
    rows, lowered_for = jnp.ones((40, N)), []

    def product(x):
        lowered_for.append(getattr(jax.config.jax_default_device, "platform", None))
        return jnp.sum(rows @ x)

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert operations(product, rows[0]) > 2 * 40 * N - 40
    assert lowered_for == ["cpu"]
