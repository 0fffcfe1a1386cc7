"""A common interface to the label models of Wiesel and its peers.

Packages are imported when a system is created, because a process has either Wiesel or the peers.
"""

from typing import Any, Protocol

import numpy as np

from benchmarks.vote_files import StoredVotes

__all__ = ["RESTARTS", "System", "system"]

RESTARTS = {"MACE": {"n_restarts": 1}}
"""Options of crowd-kit's methods that change their time but not their result."""


class System(Protocol):
    """A label model to be timed."""

    def prepare(self, votes: StoredVotes) -> Any:
        """Return the votes in the package's format; this is not timed."""
        ...

    def fit(self, data: Any) -> None:
        """Fit the model."""
        ...

    def predict(self, data: Any) -> np.ndarray:
        """Return P(class): (n_items, n_classes)."""
        ...

    def accuracies(self, data: Any) -> np.ndarray | None:
        """Return the learned P(right | votes) of every voter; None if it is not learned."""
        ...

    def n_iter(self) -> int | None:
        """Return the number of steps of `fit`; None if it does not count them."""
        ...


def system(package: str, method: str, options: dict[str, Any], balance: Any) -> System:
    """Return the label model of a package; `balance` is P(class) if given."""
    kinds = {"wiesel": Wiesel, "snorkel": Snorkel, "crowdkit": CrowdKit, "flyingsquid": FlyingSquid}
    return kinds[package](method, options, balance)


class Wiesel:
    """Any method of Wiesel's registry."""

    def __init__(self, method: str, options: dict[str, Any], balance: Any) -> None:
        from wiesel.label_models import REGISTRY

        self.balance = balance
        self.model = REGISTRY[method].cls(**options)

    def prepare(self, votes: StoredVotes) -> Any:
        from wiesel import LabelSpace, VoteMatrix

        return VoteMatrix(
            votes.indptr,
            votes.voter,
            votes.label,
            LabelSpace(*(f"class_{c}" for c in range(votes.n_classes))),
            tuple(f"voter_{j}" for j in range(votes.n_voters)),
            np.arange(votes.n_items),
        )

    def fit(self, data: Any) -> None:
        self.model.fit(data, class_balance=self.balance)

    def predict(self, data: Any) -> np.ndarray:
        return self.model.predict_proba(data)

    def accuracies(self, data: Any) -> np.ndarray | None:
        from wiesel import summarize

        learned = summarize(data, label_model=self.model).frame["learned"]
        return None if learned.null_count() else learned.to_numpy()

    def n_iter(self) -> int | None:
        evidence = getattr(self.model, "evidence_", None)
        return None if evidence is None else len(evidence)


class Snorkel:
    """Snorkel's LabelModel with its defaults; dense votes."""

    def __init__(self, method: str, options: dict[str, Any], balance: Any) -> None:
        from snorkel.labeling.model import LabelModel

        self.make, self.options, self.balance = LabelModel, options, balance

    def prepare(self, votes: StoredVotes) -> Any:
        self.model = self.make(cardinality=votes.n_classes, verbose=False)
        return votes.dense()

    def fit(self, data: Any) -> None:
        balance = None if self.balance is None else list(self.balance)
        self.model.fit(data, class_balance=balance, progress_bar=False, seed=0, **self.options)

    def predict(self, data: Any) -> np.ndarray:
        return self.model.predict_proba(data)

    def accuracies(self, data: Any) -> np.ndarray | None:
        return np.asarray(self.model.get_weights())

    def n_iter(self) -> int | None:
        return self.model.train_config.n_epochs


class CrowdKit:
    """crowd-kit's aggregators, which take a long table and label the items in `fit`.

    Workers and classes are numbered in order of appearance. crowd-kit 1.4.2's MACE stores its
    parameters in that order but fills them from a sorted table, so any other numbering would mix
    up the workers. All its restarts use the same random numbers, so one gives the same result as
    ten (`RESTARTS`); speed is measured with its defaults.
    """

    def __init__(self, method: str, options: dict[str, Any], balance: Any) -> None:
        import crowdkit.aggregation as aggregation

        self.model = getattr(aggregation, method)(**options)

    def prepare(self, votes: StoredVotes) -> Any:
        import pandas as pd

        self.sizes = votes.n_items, votes.n_voters, votes.n_classes
        self.voters = _by_appearance(votes.voter, votes.n_voters)
        self.classes = _by_appearance(votes.label, votes.n_classes)
        table = {
            "task": votes.item,
            "worker": self.voters[votes.voter],
            "label": self.classes[votes.label],
        }
        return pd.DataFrame(table)

    def fit(self, data: Any) -> None:
        if hasattr(self.model, "fit_predict_proba"):
            self.found = self.model.fit_predict_proba(data)
        else:
            self.found = self.model.fit(data).probas_

    def predict(self, data: Any) -> np.ndarray:
        n_items, _, n_classes = self.sizes
        found = self.found.reindex(index=range(n_items), columns=range(n_classes))
        return found.fillna(0.0).to_numpy()[:, self.classes]

    def accuracies(self, data: Any) -> np.ndarray | None:
        if not hasattr(self.model, "errors_"):
            return None
        _, n_voters, n_classes = self.sizes
        errors, priors = self.model.errors_, self.model.priors_
        accuracies = np.zeros(n_voters)
        for label in range(n_classes):
            right = errors[label].xs(label, level="label").reindex(range(n_voters)).fillna(0.0)
            accuracies += priors.get(label, 0.0) * right.to_numpy()
        return accuracies[self.voters]

    def n_iter(self) -> int | None:
        history = getattr(self.model, "loss_history_", None)
        return None if history is None else len(history)


def _by_appearance(values: np.ndarray, size: int) -> np.ndarray:
    """Return the rank of every number below `size` by first appearance; unseen ones come last."""
    present, first = np.unique(values, return_index=True)
    appeared = present[np.argsort(first)]
    missing = np.setdiff1d(np.arange(size), present)
    ranks = np.empty(size, dtype=np.int64)
    ranks[np.concatenate([appeared, missing]).astype(np.int64)] = np.arange(size)
    return ranks


class FlyingSquid:
    """FlyingSquid's binary triplet model with its defaults; dense votes -1, 0, +1."""

    def __init__(self, method: str, options: dict[str, Any], balance: Any) -> None:
        vars(np)["product"] = np.prod  # pgmpy 0.1.14 predates NumPy 2, which removed it
        from flyingsquid.label_model import LabelModel

        self.make, self.options = LabelModel, options
        self.balance = np.array([0.5, 0.5] if balance is None else balance)

    def prepare(self, votes: StoredVotes) -> Any:
        self.model = self.make(votes.n_voters)
        dense = votes.dense()
        return np.where(dense < 0, 0, 2 * dense - 1)

    def fit(self, data: Any) -> None:
        self.model.fit(data, class_balance=self.balance, **self.options)

    def predict(self, data: Any) -> np.ndarray:
        return self.model.predict_proba(data, verbose=False)

    def accuracies(self, data: Any) -> np.ndarray | None:
        # It reports P(votes and is right); the others condition on a vote.
        return np.array(self.model.estimated_accuracies()) / (data != 0).mean(axis=0)

    def n_iter(self) -> int | None:
        return None
