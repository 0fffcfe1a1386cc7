"""A sample of short runs of the paper's experiments, with digests of their predictions.

    python -m experiments paper_sample

There is one short run of the paper's WeaSEL for every row of the ablation, for table 1 and for the
figures. Run it before and after a code change, on the same machine: runs that should not change
have exactly the same digest.
"""

import hashlib

import numpy as np
import torch

from experiments.framework.definitions import SIGNED
from experiments.framework.methods import build, data_of, fit_group, material
from experiments.framework.runner import Run
from experiments.studies.ablation import ROWS

SHORT = {"epochs": 2, "epoch_size": 1600}
SAMPLE = {
    "table 1": [
        Run(name, method, 0, {**SIGNED, **options, **SHORT})
        for name in ("youtube", "sms", "spouse", "imdb_12")
        for method, options in (
            ("weasel", {}),
            ("weasel_random", {}),
            ("weasel", {"tau_2": "sqrt_input"}),
        )
    ],
    "ablation": [Run("youtube", "weasel", 0, {**row.options, **SHORT}) for row in ROWS],
    "duplicates": [Run("imdb_136", "weasel", 0, {**SIGNED, "copies": 100, "draw": 0, **SHORT})],
    "independent": [Run("imdb_136", "weasel", 0, {**SIGNED, "coins": 10, "draw": 0, **SHORT})],
    "adversarial": [Run("imdb_12", "weasel", 0, {**SIGNED, "adversaries": 10, **SHORT})],
}


def main(argv: list[str]) -> None:
    """Print the digest of every run."""
    torch.set_num_threads(1)
    for study, runs in SAMPLE.items():
        for run in runs:
            dataset = data_of(run)
            X, votes, validation, _ = material(run, dataset)
            model = build(run, dataset)
            fit_group([model], X, votes, validation)
            _show(study, run, model.predict_proba(dataset.test.features))
        # The same networks again, as a stack of two.
        run, other = runs[0], Run(runs[0].dataset, runs[0].method, 1, runs[0].options)
        dataset = data_of(run)
        X, votes, validation, _ = material(run, dataset)
        models = [build(run, dataset), build(other, dataset)]
        fit_group(models, X, votes, validation)
        _show(
            f"{study}, stacked",
            run,
            np.stack([m.predict_proba(dataset.test.features) for m in models]),
        )


def _show(study: str, run: Run, proba: np.ndarray) -> None:
    digest = hashlib.sha256(np.ascontiguousarray(proba).tobytes()).hexdigest()[:16]
    print(f"{study:24} {run.key} {run.dataset:10} {digest} {proba[..., 0].mean():.15f}", flush=True)
