"""Layers: a network of them gives what `reduce_rows` does."""

from __future__ import annotations

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, normalize_rows
from slimdex.indexes.reducers.autoencoder import TiedAutoencoder
from slimdex.indexes.reducers.flow import Flow
from slimdex.indexes.reducers.layers import SELU, Dense, layers_of
from slimdex.indexes.reducers.linear import (
    AllButTheTop,
    Identity,
    Pca,
    RandomProjection,
    Truncate,
    Whitening,
)
from slimdex.indexes.reducers.reducer import Reducer, reduce_rows


@pytest.fixture(scope="module")
def X() -> Matrix:
    """Rows whose mean is most of them."""
    return np.random.default_rng(0).normal(5.0, 1.0, size=(300, 12)).astype(np.float32)


@pytest.mark.parametrize(
    "reducer",
    [
        Whitening(6),
        Whitening(12, beta=1.0, gamma=1.0),
        Whitening(8, beta=0.3, gamma=0.5),
        Pca(5),
        AllButTheTop(4),
        Truncate(3),
        RandomProjection(7),
        Identity(12),
        TiedAutoencoder(4, epochs=2),
    ],
    ids=lambda reducer: reducer.name,
)
def test_layers_equal_the_reduced_rows(X: Matrix, reducer: Reducer) -> None:
    reducer.fit(X)
    outputs = X
    for layer in layers_of(reducer):
        if isinstance(layer, Dense):
            outputs = outputs @ layer.weight.T
            outputs = outputs if layer.bias is None else outputs + layer.bias
            if layer.activation == SELU:  # Klambauer et al. 2017, eq. 2
                negative = 1.6732632423543772 * (np.exp(outputs) - 1)
                outputs = (1.0507009873554805 * np.where(outputs > 0, outputs, negative)).astype(
                    "f4"
                )
        else:
            outputs = normalize_rows(outputs)
    np.testing.assert_allclose(outputs, reduce_rows(reducer, X), atol=1e-5)


def test_a_flow_is_refused_by_name(X: Matrix) -> None:
    with pytest.raises(InputError, match="reducer 'flow'; expected a linear reducer or an auto"):
        layers_of(Flow(4, epochs=1).fit(X))
