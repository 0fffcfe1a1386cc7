"""An open project with so many rows that some of them, drawn at random, stand for all."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis import Table
from wiesel.evaluation.metrics import predicted_classes
from wiesel.guidance import (
    Blame,
    Cluster,
    EndPreview,
    ItemFacts,
    LFPreview,
    Suggestion,
    TermIndex,
    blame,
    preview_lf,
    rows_to_label,
)
from wiesel.guidance.lf_preview import RuleEffect
from wiesel.guidance.row_map import RowMap
from wiesel.io import Split
from wiesel.labels import ABSTAIN
from wiesel.lfs.function import LabelRule
from wiesel.project.rows import part_of
from wiesel.project.runs import Predictions, RowMarks
from wiesel.project.vectors import raw_inputs
from wiesel.project.voting import VotesBySplit, votes_of_nobody
from wiesel.project.workspace import Workspace

__all__ = ["MANY_ROWS", "LargeSpace"]

MANY_ROWS = 100_000
"""Of more training rows, some stand for all."""
_DRAWN = 20_000

Rows = npt.NDArray[np.int64]


class LargeSpace(Workspace):
    """An open project with one label for each of very many rows.

    Votes, labels, searches and runs concern all rows. What needs features or words of the rows
    (the linear preview, suggestions, clusters, the map, blame, which rows to label) is asked of
    `some`, which has rows drawn at random and all that were labeled before. The preview's figures
    are of these; its prediction for any other row is made when the row is shown.
    """

    def __init__(self, opened: Workspace) -> None:
        self.project, self.lf_set, self.store = opened.project, opened.lf_set, opened.store
        self.labels, self.splits, self.answers = opened.labels, opened.splits, opened.answers
        self._start()
        drawn = np.random.default_rng(0).permutation(len(self.train))[:_DRAWN]
        self.rows: Rows = np.union1d(drawn, np.flatnonzero(self._labeled()))
        """The rows that stand for all, in order."""
        self.sampled = f"{len(self.rows):,} rows drawn at random"
        self.some = _SomeRows(self)

    @property
    def features(self) -> None:
        """None: only `some` rows have features."""
        return None

    @property
    def vectors(self) -> Any:
        """The end-model inputs of `some` training rows and of the other splits."""
        return self.some.vectors

    @property
    def index(self) -> TermIndex | None:
        """The words of `some` rows."""
        return self.some.index

    @property
    def preview(self) -> EndPreview | None:
        """The preview of the end model, made from `some` rows."""
        return self.some.preview

    @property
    def map(self) -> RowMap:
        """A map of rows drawn at random."""
        found = self.some.map
        return replace(found, rows=self.rows[found.rows])

    @property
    def facts(self) -> ItemFacts:
        """The facts about the training rows that are known of all."""
        return ItemFacts(self.train.rows, self.votes, None, self.gold)

    def has(self, *names: str) -> bool:
        """Whether the named properties are computed."""
        of_some = [name for name in names if name in ("vectors", "index", "preview", "map")]
        return self.some.has(*of_some) and super().has(*(set(names) - set(of_some)))

    def _forget(self, *names: str) -> None:
        super()._forget(*names)
        self.some._forget(*names)

    def previewed(self, split: str) -> Predictions | None:
        """Return the preview's predictions; of training rows, those of `some` (else NaN, -1)."""
        found = self.some.previewed(split)
        if found is None or split != "train":
            return found
        proba = np.full((len(self.train), len(self.labels)), np.nan, dtype=np.float32)
        proba[self.rows] = found.proba
        predicted = np.full(len(self.train), ABSTAIN)
        predicted[self.rows] = found.predicted
        return found._replace(proba=proba, predicted=predicted)

    def marks(self, split: str, places: Sequence[int], found: Predictions | None) -> list[RowMarks]:
        """Return the votes, the prediction and the label of some rows."""
        preview = self.preview if found is not None else None
        here = np.asarray(places, dtype=np.int64)
        if found is None or preview is None or not len(here) or (found.predicted[here] >= 0).all():
            return super().marks(split, places, found)
        own = preview.predict_proba(self._inputs_of(split, here))
        among = Predictions(dict(zip(places, own, strict=True)), {}, found.source)
        among.predicted.update(zip(places, predicted_classes(own), strict=True))
        return super().marks(split, places, among)

    def _inputs_of(self, split: str, places: Rows) -> npt.NDArray[Any]:
        """Return the features of any rows."""
        vectors, part = self.some.vectors, part_of(self.splits[split], places)
        raw = raw_inputs(vectors.kind, self.project.features.column, part)
        return np.asarray(vectors.features.transform(raw))

    def soft_labels_of(self, split: str, place: int) -> tuple[tuple[str, float], ...]:
        """Return what the votes on a training row say together; nothing for other rows."""
        counts = self.votes[[place]].counts()[0] if split == "train" else np.zeros(1)
        if not counts.sum():
            return ()
        best = int(counts.argmax())
        return ((self.labels.names[best], float(counts[best] / counts.sum())),)

    def typical_words(self, rows: Any, n: int, least_lift: float) -> list[str]:
        """Return the words that distinguish rows from all others, as far as `some` show it."""
        return self.some.typical_words(self._places(rows), n, least_lift)

    def _places(self, rows: Any) -> Rows:
        """Return where rows are among `some`; others are left out."""
        return np.flatnonzero(np.isin(self.rows, rows))

    def preview_rule(self, rule: LabelRule) -> LFPreview:
        """Return what a rule would do on all training rows."""
        found = preview_lf(rule, self.facts)
        return replace(found, from_features=self.some.preview_rule(rule).from_features)

    def effect(self, rule: LabelRule, replaces: str = "") -> RuleEffect | None:
        """Return what a rule would change; the rows that change their class are among `some`."""
        found = self.some.effect(rule, replaces)
        if found is None:
            return None
        changed = {name: self.rows[getattr(found, name)] for name in ("gained", "lost", "changed")}
        return replace(found, **changed)

    def clusters(self) -> list[Cluster]:
        """Return groups of rows among `some` that no labeling function covers."""
        return [replace(each, rows=self.rows[each.rows]) for each in self.some.clusters()]

    def disputed(self, n: int) -> Rows:
        """Return the rows among `some` on which label models disagree most."""
        return self.rows[self.some.disputed(n)]

    def to_label(self, n: int, way: str, person: str = "", seed: int = 0) -> Table:
        """Return rows for a person to label next; rows at random need no votes.

        They are asked of `some`, but for those of one voter, who may have voted on few of them.
        """
        some = self.some
        if way == "random":
            seen = some.train.ids.cast(pl.String).is_in(list(self.store.seen_by(person)))
            gold = np.where(seen.to_numpy(), 0, some.gold)  # rows with any label are not shown
            nobody = votes_of_nobody(some.train, self.labels)
            found = rows_to_label(nobody, n=n, way="random", gold=gold, seed=seed)
        elif way in self.votes.voters:
            return super().to_label(n, way, person, seed)
        else:
            found = some.to_label(n, way, person, seed)
        own = self.rows[found.frame["row"].to_numpy()]
        share = len(self.rows) / len(self.train)
        changed = (pl.Series("row", own, dtype=pl.Int64), pl.col("probability") * share)
        return replace(found, frame=found.frame.with_columns(*changed))

    def blame(self, row: int, label: str | None = None, split: str = "train") -> Blame:
        """Return which votes on which of `some` rows led to a prediction."""
        some, item = self.some, self._inputs_of(split, np.array([row]))[0]
        found = blame(some.features, some.votes, item, label, gold=some._learning_gold())
        frame = found.neighbors.frame
        own = pl.Series("row", self.rows[frame["row"].to_numpy()], dtype=pl.Int64)
        return replace(found, neighbors=replace(found.neighbors, frame=frame.with_columns(own)))

    def _estimated(self, preview: EndPreview) -> Any:
        return self.some._estimated(preview)

    def _suggested(self, n: int) -> list[Suggestion]:
        return self.some._suggested(n)


class _SomeRows(Workspace):
    """The rows of a large project that stand for all, as an open project."""

    def __init__(self, whole: LargeSpace) -> None:
        self.whole = whole
        self.project, self.lf_set, self.store = whole.project, whole.lf_set, whole.store
        self.labels, self.answers = whole.labels, whole.answers
        self._hear = whole._hear  # type: ignore[method-assign]
        self.splits: dict[str, Split] = dict(whole.splits) | {
            "train": part_of(whole.train, whole.rows)
        }
        self._start()

    def _cast(self) -> VotesBySplit:
        found = self.whole.cast
        own: Mapping[str, Any] = found.by_split
        return replace(found, by_split={**own, "train": own["train"][self.whole.rows]})
