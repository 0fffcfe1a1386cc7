"""A small multi-label task with planted truth."""

import numpy as np
import pytest

from wiesel.multilabel import MultiLabelVotes

NAMES = ("sports", "money", "law")


class Task:
    """Items with three labels that features show; six voters, each right three times in four."""

    def __init__(self, n_items: int = 300) -> None:
        rng = np.random.default_rng(0)
        self.gold = (rng.random((n_items, 3)) < [0.5, 0.3, 0.3]).astype(np.int64)
        noise = rng.normal(0, 0.5, (n_items, 3))
        self.X = (2.0 * self.gold - 1 + noise).astype(np.float32)
        right = rng.random((n_items, 6, 3)) < 0.75
        said = np.where(right, self.gold[:, None], 1 - self.gold[:, None])
        self.said = np.where(rng.random((n_items, 6, 3)) < 0.4, -1, said)

    @property
    def votes(self) -> MultiLabelVotes:
        return MultiLabelVotes.from_dense(self.said, NAMES)

    def one_sided(self, label: int = 2) -> MultiLabelVotes:
        """The same votes, but nobody votes against one label."""
        said = self.said.copy()
        said[:, :, label] = np.where(said[:, :, label] == 0, -1, said[:, :, label])
        return MultiLabelVotes.from_dense(said, NAMES)


@pytest.fixture(scope="session")
def task() -> Task:
    return Task()
