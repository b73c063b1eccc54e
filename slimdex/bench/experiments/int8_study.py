"""Share of the ten nearest that stays if vectors are stored, by format and gamma."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.vectors.row_formats import center_of, packed, unpacked

from ...retrieval.encoders.opening import open_encoder
from ..datasets import load_dataset

GAMMAS = (0, 0.25, 0.5, 0.75, 1)


def stored(X: Matrix) -> dict[str, Matrix]:
    """Return rows (n, d) as each format restores them."""
    dim = X.shape[1]
    center = center_of(X[:1000])
    return {
        "fp16": X.astype(np.float16).astype(np.float32),
        "int8": unpacked(packed(X), dim),
        "int8 less a center": unpacked(packed(X - center), dim) + center,
    }


def main(model: str, folder: str) -> None:
    """Print a line for each gamma."""
    encoder = open_encoder(model)
    dataset = load_dataset(Path(folder).name, Path(folder).parent)
    X = encoder.encode(dataset.texts)
    Q = encoder.encode(dataset.query_texts)
    mean = X.mean(axis=0)
    values, axes = np.linalg.eigh(np.cov((X - mean).T))
    for gamma in GAMMAS:
        W = axes * np.maximum(values, 1e-9) ** (-gamma / 2)

        def nearest(rows: Matrix, W: Matrix = W) -> Matrix:
            documents = (rows - mean) @ W
            documents /= np.linalg.norm(documents, axis=1, keepdims=True)
            cosines = (Q - mean) @ W @ documents.T
            return np.argsort(-cosines, axis=1)[:, :10]

        expected = nearest(X)
        for name, rows in stored(X).items():
            pairs = zip(nearest(rows), expected, strict=True)
            same = np.mean([len({*a} & {*b}) / 10 for a, b in pairs])
            print(Path(model).name, gamma, name, round(float(same), 3))


if __name__ == "__main__":
    main(*sys.argv[1:])
