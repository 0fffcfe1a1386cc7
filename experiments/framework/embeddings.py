"""Alternative text features: embeddings or TF-IDF, alone or added to a data set's features.

The option `features` of a run is `minilm` or `tfidf`, or one of them with `+own`.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

from experiments.framework.hints import SPLITS
from wiesel.features import TextFeatures
from wiesel.io import Dataset

KINDS = ("minilm", "minilm+own", "tfidf", "tfidf+own")
CACHE = Path.home() / ".cache" / "wiesel-experiments"
"""Embeddings take minutes, so they are computed once per machine."""
TFIDF_DIMENSIONS = 200
"""As many dimensions as in the sets that come with TF-IDF."""


def with_features(dataset: Dataset, kind: str) -> Dataset:
    """Return a data set with features computed from its texts, added to its own if requested."""
    if kind not in KINDS:
        raise ValueError(f"features must be one of {KINDS}; got {kind!r}")
    made = _vectors(dataset, "minilm" if kind.startswith("minilm") else "tfidf")
    splits = {}
    for name in SPLITS:
        split, parts = dataset[name], [made[name]]
        if kind.endswith("+own"):
            parts.append(split.features)
        splits[name] = replace(split, features=np.column_stack(parts).astype(np.float32))
    return replace(dataset, splits=splits)


@cache
def _vectors(dataset: Dataset, kind: Literal["minilm", "tfidf"]) -> dict[str, np.ndarray]:
    """Return standardized vectors of all splits."""
    features = TextFeatures(kind, cache=CACHE, n_dimensions=TFIDF_DIMENSIONS)
    train = features.fit_transform(dataset.train.texts)
    others = {name: features.transform(dataset[name].texts) for name in SPLITS if name != "train"}
    return {"train": train, **others}
