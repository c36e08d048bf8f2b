"""Finite chains: the lectures' examples, corrected (the table's 8.0 is 0.8), and chains whose answers are known."""

import math

import numpy as np
import pytest

from gadabout.finite import FiniteChain

LECTURES = [[0.1, 0.2, 0.7], [0.8, 0.0, 0.2], [0.1, 0.9, 0.0]]
CYCLE = np.eye(3)[[1, 2, 0]]


def flip(p):
    return FiniteChain([[1 - p, p], [p, 1 - p]])


def metropolis(law):
    """Proposals to a neighbour on a ring, accepted by the ratio: in detailed balance with `law`."""
    n = len(law)
    T = np.zeros((n, n))
    for i in range(n):
        for j in ((i - 1) % n, (i + 1) % n):
            T[i, j] = 0.5 * min(1, law[j] / law[i])
        T[i, i] = 1 - T[i].sum()
    return FiniteChain(T)


def test_three_states_of_the_lectures():
    chain = FiniteChain(LECTURES)
    np.testing.assert_allclose(chain.stationary_law, [0.343, 0.347, 0.310], atol=5e-4)
    np.testing.assert_allclose(chain.marginal(chain.stationary_law, 1), chain.stationary_law, atol=1e-15)
    assert chain.second_eigenvalue == pytest.approx(0.7)
    assert chain.is_irreducible
    assert chain.period == 1
    assert not chain.is_reversible
    assert chain.imbalance() > 0.2


def test_the_slip_of_the_table_is_found():
    with pytest.raises(ValueError, match=r"row 1 is \[8\.  0\.  0\.2\], with the sum 8\.2"):
        FiniteChain([[0.1, 0.2, 0.7], [8.0, 0, 0.2], [0.1, 0.9, 0]])


@pytest.mark.parametrize(
    "wrong", [np.ones((2, 3)) / 3, np.zeros((0, 0)), [0.5, 0.5], [[1.5, -0.5], [0, 1]], [[np.nan, 1], [0, 1]]]
)
def test_what_is_no_transition_matrix_is_refused(wrong):
    with pytest.raises(ValueError, match="transition must"):
        FiniteChain(wrong)


def test_a_law_is_a_row():
    """Two steps by hand from state b, and the transposed product, which is another thing."""
    chain = FiniteChain(LECTURES)
    np.testing.assert_allclose(chain.marginal([0, 1, 0], 1), LECTURES[1])
    by_hand = sum(LECTURES[1][k] * np.array(LECTURES[k]) for k in range(3))
    np.testing.assert_allclose(chain.marginal([0, 1, 0], 2), by_hand)
    assert np.abs(chain.transition @ [0, 1, 0] - LECTURES[1]).max() > 0.5
    np.testing.assert_allclose(chain.marginal(np.eye(3), 5), np.linalg.matrix_power(chain.transition, 5))


@pytest.mark.parametrize(("p", "size"), [(0.25, 0.5), (0.0005, 0.999)])
def test_second_eigenvalue_is_what_is_left_of_the_start(p, size):
    chain = flip(p)
    assert chain.second_eigenvalue == pytest.approx(size)
    for t in (1, 7, 500):
        bias = chain.marginal([1, 0], t)[0] - 0.5
        assert bias == pytest.approx(0.5 * size**t, rel=1e-9, abs=1e-15)


def test_what_the_lectures_say_of_the_two():
    assert flip(0.25).second_eigenvalue ** 50 < 1e-15
    assert 1 - flip(0.0005).second_eigenvalue ** 500 == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize("p", [0.25, 0.0005, 0.01, 0.9])
@pytest.mark.parametrize("distance", [0.25, 0.01])
def test_mixing_time_of_two_states(p, distance):
    """The distance is |1 − 2p|ᵗ/2."""
    expected = math.ceil(math.log(2 * distance) / math.log(abs(1 - 2 * p)))
    assert flip(p).mixing_time(distance) == expected


@pytest.mark.parametrize("distance", [0.4, 0.25, 0.1, 1e-6])
def test_mixing_time_is_the_first_step_that_is_near(distance):
    chain = FiniteChain(LECTURES)
    t = chain.mixing_time(distance)
    far = [np.abs(chain.marginal(np.eye(3), s) - chain.stationary_law).sum(1).max() / 2 > distance for s in (t - 1, t)]
    assert far == [True, False]


def test_periodic():
    chain = FiniteChain(CYCLE)
    assert chain.period == 3
    assert chain.is_irreducible
    assert chain.second_eigenvalue == pytest.approx(1)
    assert chain.mixing_time() == math.inf
    np.testing.assert_allclose(chain.stationary_law, 1 / 3)
    assert FiniteChain(0.9 * CYCLE + 0.1 * np.eye(3)).period == 1
    assert metropolis(np.ones(4)).period == 2
    assert metropolis(np.ones(5)).period == 1


def test_disconnected():
    """Two classes, one of them periodic, and a state that leads to both."""
    T = np.zeros((5, 5))
    T[0, :2], T[1, :2] = [0.5, 0.5], [0.2, 0.8]
    T[2, 3] = T[3, 2] = 1
    T[4] = [0.1, 0.2, 0.3, 0, 0.4]
    chain = FiniteChain(T)
    assert [c.tolist() for c in chain.closed_classes] == [[0, 1], [2, 3]]
    assert not chain.is_irreducible
    assert chain.period == 2
    assert chain.mixing_time() == math.inf
    assert chain.second_eigenvalue == pytest.approx(1)
    np.testing.assert_allclose(chain.stationary_laws, [[2 / 7, 5 / 7, 0, 0, 0], [0, 0, 0.5, 0.5, 0]])
    with pytest.raises(ValueError, match=r"not unique: each of \[\[0, 1\], \[2, 3\]\] is never left"):
        _ = chain.stationary_law


def test_a_state_that_is_left_for_good():
    chain = FiniteChain([[0.5, 0.5], [0, 1]])
    np.testing.assert_allclose(chain.stationary_law, [0, 1])
    assert not chain.is_irreducible
    assert chain.second_eigenvalue == pytest.approx(0.5)
    assert chain.mixing_time() == 2
    assert FiniteChain([[1.0]]).mixing_time() == 0
    assert FiniteChain([[1.0]]).second_eigenvalue == 0


def test_drifting():
    """A walk on the integers has no stationary law: its variance is the number of steps, so wide must the window be."""
    n = 101
    steps = np.diag(np.full(n - 1, 0.5), 1) + np.diag(np.full(n - 1, 0.5), -1)
    steps[0, 0] = steps[-1, -1] = 0.5
    chain, places = FiniteChain(steps), np.arange(n) - 50
    for t in (1, 10, 49):
        law = chain.marginal(places == 0, t)
        assert law @ places**2 == pytest.approx(t)


def test_detailed_balance_and_the_symmetric_form():
    law = np.array([1.0, 5.0, 2.0, 0.1, 3.0])
    chain = metropolis(law)
    np.testing.assert_allclose(chain.stationary_law, law / law.sum())
    assert chain.is_reversible
    assert np.abs(chain.transition - chain.transition.T).max() > 0.1  # T itself is not symmetric
    root = np.sqrt(chain.stationary_law)
    symmetric = root[:, None] * chain.transition / root
    np.testing.assert_allclose(symmetric, symmetric.T, atol=1e-15)
    assert chain.eigenvalues.dtype == float
    np.testing.assert_allclose(
        np.sort(chain.eigenvalues), np.sort(np.linalg.eigvals(chain.transition).real), atol=1e-12
    )
    assert chain.imbalance(np.full(5, 0.2)) > 0.05


@pytest.mark.parametrize("gap", [1e-6, 1e-12])
def test_stationary_law_where_the_chain_hardly_moves(gap):
    T = np.array([[1 - gap, gap], [3 * gap, 1 - 3 * gap]])
    np.testing.assert_allclose(FiniteChain(T).stationary_law, [0.75, 0.25], rtol=5e-4)


def test_simulation_follows_the_matrix():
    """Counts of 200,000 transitions within 4.5 standard errors: false alarms once in 20,000 for nine figures."""
    chain = FiniteChain(LECTURES)
    states = chain.simulate(7, 5_000, [1, 0, 0], num_chains=40)
    assert states.shape == (40, 5_001)
    assert (states[:, 0] == 0).all()
    counts = np.zeros((3, 3))
    np.add.at(counts, (states[:, :-1].ravel(), states[:, 1:].ravel()), 1)
    assert (counts[chain.transition == 0] == 0).all()
    visits = counts.sum(1, keepdims=True)
    error = np.sqrt(chain.transition * (1 - chain.transition) / visits)
    assert (np.abs(counts / visits - chain.transition) <= 4.5 * error).all()
    np.testing.assert_array_equal(states, chain.simulate(7, 5_000, [1, 0, 0], num_chains=40))
    starts = chain.simulate(1, 0, [0.2, 0.3, 0.5], num_chains=100_000)
    np.testing.assert_allclose(np.bincount(starts[:, 0]) / 1e5, [0.2, 0.3, 0.5], atol=0.007)


def test_autoregression_on_a_grid_has_the_powers_of_rho():
    """Discretised, θ' = 0.9 θ + √(1 − 0.81) ξ is reversible, with eigenvalues 0.9ᵏ: that of θ, of θ² and so on."""
    grid = np.linspace(-6, 6, 241)
    T = np.exp(-0.5 * (grid - 0.9 * grid[:, None]) ** 2 / (1 - 0.81))
    chain = FiniteChain(T / T.sum(1, keepdims=True))
    assert chain.is_reversible
    np.testing.assert_allclose(chain.eigenvalues[:5], 0.9 ** np.arange(5), atol=2e-3)


def test_a_simulation_starts_from_one_law():
    with pytest.raises(ValueError, match=r"start must have the shape \(2,\)"):
        flip(0.3).simulate(0, 3, [[1.0, 0.0], [0.0, 1.0]])
