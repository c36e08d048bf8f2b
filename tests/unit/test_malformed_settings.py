"""Settings of every recipe, times values that no setting may have: refused when the recipe is made, by name.

A setting that a recipe gains fails here until `KINDS` says what it may be.
"""

import inspect
import math
import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gadabout as gad
from gadabout.algorithms import PYTHON_RECIPES, RECIPES
from tests.refusals import nothing_is_written, refused

pytestmark = pytest.mark.usefixtures(nothing_is_written.__name__)

VALUES = {
    "a word": "x",
    "NaN": math.nan,
    "minus one": -1,
    "zero": 0,
    "one": 1,
    "one half": 0.5,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "True": True,
    "None": None,
    "a list": [0.25],
    "a vector": np.ones(3),
    "a dictionary": {"value": 0.5},
    "a complex number": 1j,
    "bytes": b"dense",
    "10**30": 10**30,
}
NUMBERS_ABOVE_0 = {"one", "one half", "10**30"}
KINDS = {
    "a probability": {"one half"},
    "a number above 0": NUMBERS_ABOVE_0,
    "a number above 0, or None": NUMBERS_ABOVE_0 | {"None"},
    "a number above 1": {"10**30"},
    "a number of at least 0": NUMBERS_ABOVE_0 | {"zero"},
    "a share from 0 on": {"zero", "one half"},
    "a whole number above 0": {"one"},
    "a whole number above 0, or None": {"one", "None"},
    "a whole number above 1": set(),
    "a whole number": {"zero", "one"},
    "a truth value": {"True"},
    "a word of some": set(),
    "a function": set(),
    "a function, or None": {"None"},
    "an object": set(),
    "an object, or None": {"None"},
    "the diagonal of a matrix, or None": {"a list", "a vector", "None"},
    "a matrix, or None": {"None"},
    "weights, or None": {"None", "a list"},
    "coordinates": set(),
    "a number from 0 on, below friction": {"zero"},
}
"""which of the values each kind of setting may have"""

SETTINGS = {
    "adapt_for_ever": "a truth value",
    "beta_rate": "a number above 0",
    "bound": "a number above 0",
    "conditionals": "a function",
    "damping": "a number above 0",
    "decay": "a probability",
    "degrees_of_freedom": "a number above 0, or None",
    "distribution": "an object, or None",
    "drift": "a truth value",
    "estimator": "an object, or None",
    "factor": "a word of some",
    "freeze": "a truth value",
    "friction": "a probability",
    "gain": "a function, or None",
    "growth": "a number above 1",
    "indices": "coordinates",
    "inverse_mass_matrix": "the diagonal of a matrix, or None",
    "learning_rate": "a number above 0, or None",
    "form": "a word of some",
    "level": "a function",
    "local": "an object",
    "log_density": "a function, or None",
    "max_depth": "a whole number above 0",
    "max_steps": "a whole number above 0",
    "means": "a matrix, or None",
    "metric": "a word of some",
    "move": "a word of some",
    "coordinates": "a word of some",
    "noise_estimate": "a number from 0 on, below friction",
    "num_components": "a whole number above 0",
    "num_steps": "a whole number above 0",
    "objective": "an object, or None",
    "optimiser": "an object, or None",
    "period": "a whole number above 1",
    "plain_iterations": "a whole number above 0",
    "proposal": "an object",
    "random_order": "a truth value",
    "regularisation": "a number of at least 0",
    "reset": "a function",
    "sampler": "an object",
    "samplers": "an object",
    "scale": "a number above 0, or None",
    "step_jitter": "a share from 0 on",
    "step_size": "a number above 0, or None",
    "step_size_rate": "a number above 0",
    "step_size_rule": "a word of some",
    "steps_jitter": "a whole number",
    "takes_discrete": "a truth value",
    "target_acceptance": "a probability",
    "variant": "a word of some",
    "warmup_max_depth": "a whole number above 0, or None",
    "with_gradients": "a truth value",
    "weights": "weights, or None",
}
"""what the settings of a name are in all recipes but those of `EXCEPTIONS`"""

EXCEPTIONS = {
    ("haario", "scale"): "a number above 0",
    ("haario-scaled", "scale"): "a number above 0",
    ("independence", "scale"): "a number above 0",
    ("mixture-independence", "scale"): "a number above 0",
    ("mixture-walk", "scale"): "a number above 0",
    ("mixture-independence", "regularisation"): "a number above 0",
    ("mixture-walk", "regularisation"): "a number above 0",
    ("reprojected", "sampler"): "an object, or None",
    ("sgld", "step_size"): "a number above 0",
    ("psgld", "step_size"): "a number above 0",
    ("sghmc", "step_size"): "a number above 0",
    ("sgnht", "step_size"): "a number above 0",
    ("ula", "step_size"): "a number above 0",
}
STEPS = gad.minibatch.polynomial(0.01)
ALL = RECIPES | PYTHON_RECIPES | {"default": gad.default}


def needed(name):
    """The arguments without which a recipe cannot be made."""
    walk = gad.proposals.RandomWalk(gad.factors.Diagonal(jnp.ones(2)))
    return {
        "gad": (walk,),
        "metropolis-hastings": (lambda key, x: x,),
        "gibbs": (lambda key, x: x,),
        "cycle": (gad.rwm(),),
        "mix": (gad.rwm(),),
        "block": (gad.rwm(), [0]),
    }.get(name, (STEPS,) if name in ("ula", "sgld", "psgld", "sghmc", "sgnht") else ())


def made(name, setting, value):
    recipe = ALL[name]
    parameters = list(inspect.signature(recipe).parameters.values())
    position = next(i for i, each in enumerate(parameters) if each.name == setting)
    first = list(needed(name))
    if parameters[position].kind is inspect.Parameter.VAR_POSITIONAL:
        return recipe(*first, value)
    if position < len(first):
        first[position] = value
        return recipe(*first)
    return recipe(*first, **{setting: value})


def kind_of(name, setting):
    return EXCEPTIONS.get((name, setting), SETTINGS.get(setting))


EVERY = [(name, setting) for name, recipe in ALL.items() for setting in inspect.signature(recipe).parameters]


@pytest.mark.parametrize(("name", "setting"), EVERY, ids=map(" ".join, EVERY))
def test_a_setting_that_is_wrong_is_refused_when_the_recipe_is_made(name, setting):
    wrong, accepted = VALUES.keys() - KINDS[kind_of(name, setting)], []
    for what in sorted(wrong):
        try:
            refused(lambda what=what: made(name, setting, VALUES[what]), setting.rstrip("s"))
        except (AssertionError, pytest.fail.Exception) as error:
            accepted.append(f"{what}: {error}")
    assert not accepted, "\n".join(accepted)


@pytest.mark.parametrize(("name", "setting"), EVERY, ids=map(" ".join, EVERY))
def test_a_setting_that_is_right_is_taken(name, setting):
    for what in KINDS[kind_of(name, setting)] - {"10**30"}:
        if (name, setting, what) != ("am", "adapt_for_ever", "True"):  # whose gains do not diminish as run
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="step_size: .* is violated")
                assert made(name, setting, VALUES[what]).name


OUTSIDE = {
    "a probability": st.one_of(st.floats(max_value=0), st.floats(min_value=1)),
    "a number above 0": st.floats(max_value=0),
    "a number above 0, or None": st.floats(max_value=0),
    "a number above 1": st.floats(max_value=1),
    "a whole number above 0": st.one_of(st.integers(max_value=0), st.floats(), st.integers(min_value=2**63)),
    "a word of some": st.text(),
    "a truth value": st.one_of(st.integers(), st.text(), st.none()),
}
WORDS = {"auto", "fast", "exact", "dense", "diagonal", "unit", "as-run", "as-written", "multiplicative", "proportional"}


@settings(max_examples=150, derandomize=True, database=None, deadline=None)
@given(st.data())
def test_no_value_outside_the_range_of_a_setting_is_taken(data):
    name, setting = data.draw(st.sampled_from([each for each in EVERY if kind_of(*each) in OUTSIDE]))
    value = data.draw(OUTSIDE[kind_of(name, setting)].filter(lambda value: value not in WORDS | {"dual-averaging"}))
    refused(lambda: made(name, setting, value), setting)


def decreasing(k):
    return 1 / k


def raising(k):
    raise RuntimeError("no gain\nat all")


@pytest.mark.parametrize("recipe", [gad.gad_mala, gad.gad_rwm, gad.haario, gad.haario_scaled, gad.ram,
                                    gad.mixture_independence, gad.mixture_walk])  # fmt: skip
@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (lambda k: -1.0, ["-1.0"]),
        (lambda k: math.nan, ["nan"]),
        (lambda k: "x", ["ValueError"]),
        (lambda k: np.ones(3), ["TypeError"]),
        (lambda: 1.0, ["TypeError", "argument"]),
        (raising, ["RuntimeError: no gain"]),
        (gad.adaptations.PowerGain, ["exponent"]),
    ],
)
def test_a_gain_is_a_function_of_k_to_a_number(recipe, gain, words):
    refused(
        lambda: recipe(gain=gain), "gain", "above 0" if recipe in (gad.gad_mala, gad.gad_rwm, gad.ram) else "(0, 1]"
    )
    refused(lambda: recipe(gain=gain), *words)
    assert recipe(gain=decreasing).name


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gad.adaptations.PowerGain("x", 0.7), ["coefficient", "'x'"]),
        (lambda: gad.adaptations.PowerGain(-1, 0.7), ["coefficient", "-1", "above 0"]),
        (lambda: gad.adaptations.PowerGain(1, None), ["exponent", "None"]),
        (lambda: gad.adaptations.PowerGain(1, math.nan), ["exponent", "nan"]),
        (lambda: gad.adaptations.PowerGain(1, 0.7, "x"), ["offset", "'x'"]),
        (lambda: gad.adaptations.PowerGain(1, 0.7, -2), ["offset", "-2", "at least 0"]),
        (lambda: gad.minibatch.polynomial("x"), ["coefficient", "'x'"]),
        (lambda: gad.minibatch.polynomial(0.01, -1), ["offset", "-1"]),
        (lambda: gad.adaptations.check_gains(3), ["gain", "function", "3"]),
        (lambda: gad.adaptations.check_gains(lambda k: "x"), ["gain", "number"]),
        (lambda: gad.sgld(lambda t: "x"), ["step_size", "number"]),
        (lambda: gad.sgld(lambda t: -1.0), ["step_size", "at least 0"]),
        (lambda: gad.sgld(lambda t: np.ones(2)), ["step_size", "number"]),
        (lambda: gad.psgld(raising), ["step_size", "RuntimeError"]),
        (lambda: gad.adaptations.stay_within("x"), ["radius", "'x'"]),
        (lambda: gad.adaptations.stay_within(-1), ["radius", "-1"]),
        (lambda: gad.hmc(5, steps_jitter=5), ["steps_jitter", "num_steps - 1 = 4", "5"]),
        (lambda: gad.hmc(inverse_mass_matrix=[[1, 2], [2, 1]]), ["inverse_mass_matrix", "positive definite"]),
        (lambda: gad.hmc(inverse_mass_matrix=[[1, 2, 3]]), ["inverse_mass_matrix", "(1, 3)"]),
        (lambda: gad.hmc(inverse_mass_matrix=[[1, 2], [3]]), ["inverse_mass_matrix", "(n, n)"]),
        (lambda: gad.hmc(inverse_mass_matrix=[1, math.nan]), ["inverse_mass_matrix", "finite"]),
        (lambda: gad.hmc(inverse_mass_matrix=[1, -1]), ["inverse_mass_matrix", "positive definite"]),
        (lambda: gad.hmc(inverse_mass_matrix=[]), ["inverse_mass_matrix", "(0,)"]),
        (lambda: gad.nuts(max_depth=100), ["max_depth", "100", "below 31"]),
        (lambda: gad.nuts(warmup_max_depth=31), ["warmup_max_depth", "31", "below 31"]),
        (lambda: gad.mixture_walk(2, means=np.zeros((3, 2))), ["means", "(3, 2)", "(2, n)"]),
        (lambda: gad.mixture_independence(2, means=[["a"], ["b"]]), ["means", "real numbers"]),
        (lambda: gad.mixture_independence(2, means=np.zeros((2, 0))), ["means", "(2, 0)"]),
        (lambda: gad.block(gad.rwm(), []), ["indices", "[]", "at least one"]),
        (lambda: gad.block(gad.rwm(), [0, 0]), ["indices", "[0, 0]", "different"]),
        (lambda: gad.block(gad.rwm(), [-1]), ["indices", "-1"]),
        (lambda: gad.block(gad.rwm(), "01"), ["indices", "'01'"]),
        (lambda: gad.block(gad.rwm(), [True]), ["indices", "True"]),
        (lambda: gad.block(gad.rwm(), 0), ["indices", "0"]),
        (lambda: gad.block(gad.rwm, [0]), ["block", "sampler", "rwm()"]),
        (lambda: gad.block(gad.sgnht(STEPS), [0]), ["sgnht", "part"]),
        (lambda: gad.cycle(), ["cycle", "at least one", "rwm()"]),
        (lambda: gad.cycle(3), ["cycle", "sampler", "3"]),
        (lambda: gad.cycle(gad.rwm(), "rwm"), ["cycle", "sampler", "'rwm'"]),
        (lambda: gad.cycle([gad.rwm(), gad.am()]), ["cycle", "sampler", "list"]),
        (lambda: gad.mix(), ["mix", "at least one"]),
        (lambda: gad.mix(gad.rwm(), gad.am(), weights=[1]), ["weights", "2 finite numbers", "[1]"]),
        (lambda: gad.mix(gad.rwm(), gad.am(), weights=[1, 0]), ["weights", "above 0"]),
        (lambda: gad.mix(gad.rwm(), gad.am(), weights=[1, math.inf]), ["weights", "finite"]),
        (lambda: gad.mix(gad.rwm(), gad.am(), weights=["a", "b"]), ["weights", "numbers"]),
        (lambda: gad.gibbs(), ["conditional", "at least one"]),
        (lambda: gad.gibbs([lambda key, x: x]), ["conditional", "function (key, position)"]),
        (lambda: gad.gad(gad.proposals.RandomWalk), ["proposal", "AbstractReparametrised"]),
        (lambda: gad.gad(gad.proposals.Barker(gad.factors.Diagonal(np.ones(2)))), ["proposal", "Barker"]),
        (lambda: gad.metropolis_hastings(gad.proposals.RandomWalk), ["proposal", "RandomWalk"]),
        (lambda: gad.metropolis_hastings(needed("gad")[0], len), ["log_density", "leave it out"]),
        (lambda: gad.sghmc(STEPS, friction=0.1, noise_estimate=0.2), ["noise_estimate", "friction", "0.2"]),
        (lambda: gad.reprojected(gad.rwm), ["sampler", "haario()"]),
        (lambda: gad.gad_mala(optimiser=len), ["optimiser", "optax"]),
        (lambda: gad.am(adapt_for_ever=True), ["adapt_for_ever", "warm-up"]),
    ],
)
def test_what_recipes_refuse(call, words):
    refused(call, *words)
