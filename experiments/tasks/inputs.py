"""End-model inputs: good, narrow and poor features.

- tfidf-N: the first N components of the base's TF-IDF (SVD); minilm, pixels: all stored columns.
- all: all of the base's best features (tables: the columns; images: a network's outputs).
- columns-N: N random columns of the best features; projection-N: N random mixtures of all of them.
"""

import numpy as np

from experiments.tasks.bases import Base, Matrix


def make_inputs(kind: str, base: Base, generator: np.random.Generator) -> Matrix:
    """Return the inputs of all items of a base, before standardization."""
    name, _, width = kind.partition("-")
    if name == "tfidf":
        return base.features["tfidf"][:, : int(width)]
    if name == "columns":
        chosen = generator.choice(base.best.shape[1], int(width), replace=False)
        return base.best[:, np.sort(chosen)]
    if name == "projection":
        spread = np.maximum(base.best.std(axis=0), 1e-6)
        directions = generator.standard_normal((base.best.shape[1], int(width)))
        return (base.best / spread @ directions).astype(np.float32)
    return base.best if name == "all" else base.features[name]
