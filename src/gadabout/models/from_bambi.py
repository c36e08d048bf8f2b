"""Bambi models, through the PyMC model that Bambi builds."""

# pyright: reportMissingImports=false

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from gadabout.checks import shown
from gadabout.models.from_pymc import PyMCModel, precision_kept
from gadabout.models.missing import needs


def bambi(
    model: Any, *, dims: Mapping[str, Sequence[str]] | None = None, coords: Mapping[str, Any] | None = None
) -> "BambiModel":
    """A Bambi model, as a model that `sample` takes: `tree = gad.sample(gad.models.bambi(model))`.

    `tree` corresponds to the result of `model.fit()`, for `model.predict(tree)` and Bambi's other functions: the
    intercept is that of predictors that are not centred. Otherwise as in `gadabout.models.pymc`.

    Args:
        model: a `bambi.Model`; it is built here if necessary.
        dims: names of the dimensions of variables, in addition to the model's.
        coords: coordinates along dimensions, in addition to the model's.

    Raises:
        ImportError: if Bambi is not installed.
        TypeError, ValueError: if `model` is not a Bambi model, or as in `gadabout.models.pymc`.
    """
    needs("bambi", "bambi", "gadabout.models.bambi")
    with precision_kept():
        import pymc.sampling.jax  # noqa: F401
        from bambi import Model
    if not isinstance(model, Model):
        raise TypeError(f"model must be a bambi.Model, got {shown(model)}")
    if not model.built:
        model.build()
    return BambiModel(model, dims, coords)


class BambiModel(PyMCModel):
    """The model that `gadabout.models.bambi` returns."""

    def __init__(self, model: Any, dims: Any, coords: Any):
        super().__init__(model.backend.model, dims, coords)
        self._bambi = model
        self._means = dict(filter(None, map(_means, model.backend.distributional_components.values())))

    def _again(self):
        return BambiModel(self._bambi, *self._named)

    def constrain(self, x):
        return self._shifted(super().constrain(x), jnp.ndim(x) - 1, -1)

    def unconstrain(self, position):
        return super().unconstrain(self._shifted(position, 0, 1))

    def predictions(self, keys, x):
        raise TypeError('model: draws of data are Bambi\'s; use model.predict(tree, kind="response")')

    def _shifted(self, values: Mapping[str, Any], leading: int, sign: int) -> dict[str, Any]:
        """The values, with `leading` leading axes, with sign · Σ mean · coefficient added to each intercept."""
        values = dict(values)
        for intercept, means in self._means.items():
            here = values[intercept]
            for name, mean in means.items():
                coefficients = jnp.reshape(values[name], (*here.shape[:leading], len(mean), *here.shape[leading:]))
                values[intercept] += sign * jnp.tensordot(mean, jnp.moveaxis(coefficients, leading, 0), 1)
        return values


def _means(component: Any) -> tuple[str, dict[str, np.ndarray]] | None:
    """The name of the intercept, and the column means of each term by name; None if predictors were not centred."""
    from bambi.utils import get_aliased_name

    if component.design_matrix_without_intercept is None:
        return None
    terms = component.component.common_terms.values()
    means = {get_aliased_name(term): np.column_stack([term.data]).mean(0) for term in terms}
    return get_aliased_name(component.component.intercept_term), means
