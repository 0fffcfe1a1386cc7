"""An open project: rows, votes, labels, and everything derived from them.

Nothing is computed twice: votes come from the project's cache, and everything else is kept until
its inputs change. The command line and the workbench both use it, from several threads. A thread
that needs a value under computation waits for that value and for nothing else.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.aggregate import Aggregation, aggregate
from wiesel.analysis import Table, summarize
from wiesel.analysis.finding import finding_frame
from wiesel.errors import FeatureError
from wiesel.evaluation import evaluate_proba
from wiesel.evaluation.intervals import paired_interval
from wiesel.guidance import (
    Blame,
    Cluster,
    EndPreview,
    ItemFacts,
    LFPreview,
    Suggestion,
    TermIndex,
    blame,
    preview_end_model,
    preview_lf,
    rows_to_label,
    suggest_lfs,
    uncovered_clusters,
)
from wiesel.guidance.lf_preview import with_voter
from wiesel.guidance.row_map import RowMap, map_rows
from wiesel.guidance.suggesting import text_column_of
from wiesel.io import FilePath, Split, explained, read_rows
from wiesel.labels import ABSTAIN, LabelSpace, as_indices
from wiesel.lfs.rules import LabelRule
from wiesel.lfs.text_rules import Keywords
from wiesel.project.insights import project_findings
from wiesel.project.labels import label_store, labeled_gold
from wiesel.project.lf_set import LFSet
from wiesel.project.rows import ProjectRows, read_splits, refuse_several_labels
from wiesel.project.settings import Project, read_project
from wiesel.project.vectors import make_vectors
from wiesel.project.voting import VotesBySplit, cast_enabled, cast_votes
from wiesel.votes import VoteMatrix

__all__ = ["RuleEffect", "Workspace"]

Made = TypeVar("Made")
Gold = npt.NDArray[np.int64]

_OF_ROWS_ALONE = ("vectors", "index", "map")
"""Properties that stay valid when labels or labeling functions change."""
_OF_LABELS = ("preview", "summary", "findings", "score", "crowd")
"""What changes with the labels and with the labeling functions."""
_SOON = 5_000
"""Features of so many rows are there in a moment, so labeling waits for them."""
_CONSIDERED = 20_000
"""Of more rows, so many drawn at random are considered for labeling, so that nobody waits."""
_ALL_CLASSES = 20
"""Up to so many classes, there is no preview before each has a vote or a label."""
_SUGGESTED = 30
"""The minimum number of suggestions to search for."""


@dataclass(frozen=True, eq=False)
class RuleEffect:
    """What a rule would change in the preview of the end model."""

    gained: Gold
    """The rows that had no vote and would have one."""
    lost: Gold
    """The rows whose only vote would go, if the rule replaces another."""
    changed: Gold
    """The rows whose predicted class would change."""
    n_labeled: int
    """The number of labeled rows that the interval is about."""
    points: tuple[float, float] | None
    """The 95 % interval of the change in accuracy; None without labeled rows."""


class Workspace:
    """An open project; `refresh` reads files and labels again."""

    def __init__(self, project: Project | FilePath) -> None:
        self.project = project if isinstance(project, Project) else read_project(project)
        refuse_several_labels(self.project)
        self.lf_set = LFSet(self.project)
        self.store = label_store(self.project)
        self.labels, self.splits = read_splits(self.project, self._named_classes())
        self._kept: dict[str, Any] = {}
        self._changes = 0
        self._lock = threading.Lock()
        self._making: dict[str, threading.RLock] = {}

    @property
    def train(self) -> Split:
        """The training rows."""
        return self.splits["train"]

    @property
    def text_column(self) -> str | None:
        """The column of text; None if there is none."""
        column = self.project.features.column
        return column if column in self.train.rows.columns else text_column_of(self.train.rows)

    @property
    def has_lfs(self) -> bool:
        """Whether votes come from labeling functions, rather than from people or a file."""
        return bool(self.project.votes.lfs)

    @property
    def has_crowd(self) -> bool:
        """Whether votes are the answers of people in a file."""
        return bool(self.project.votes.answers)

    @property
    def crowd(self) -> Aggregation:
        """The aggregated answers of people; labels that were made here calibrate confidences."""
        return self._keep("crowd", self._crowd)

    @property
    def votes(self) -> VoteMatrix:
        """The votes on the training rows; empty if there is no labeling function yet."""
        return self.cast.train

    @property
    def cast(self) -> VotesBySplit:
        """All votes, and the failures of labeling functions."""
        return self._keep("cast", self._cast)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with labeling functions that therefore do not vote."""
        state = self.cast.state
        return () if state is None else state.problems

    @property
    def gold(self) -> Gold:
        """The labels of the training rows: those people gave, else those in the file."""
        return self._keep("gold", self._gold)

    @property
    def features(self) -> npt.NDArray[Any] | None:
        """The features of the training rows; None if they are not a matrix of numbers."""
        found = self.vectors.by_split["train"]
        is_matrix = not isinstance(found, dict) and found.ndim == 2 and found.dtype.kind == "f"
        return found if is_matrix else None

    @property
    def vectors(self) -> Any:
        """The end-model inputs of every split; computed once and cached on disk."""
        return self._keep(
            "vectors", lambda: make_vectors(self.project, self.splits, self._cache_folder())
        )

    @property
    def index(self) -> TermIndex | None:
        """The words of the training texts; None if there is no text."""
        column = self.text_column
        if column is None:
            return None
        return self._keep(
            "index", lambda: TermIndex.of(self.train.rows[column].fill_null("").to_list())
        )

    @property
    def map(self) -> RowMap:
        """A map of the training rows; of many rows, some drawn at random."""
        features = self.features
        if features is None:
            raise FeatureError("A map needs features that are a matrix of numbers.")
        return self._keep("map", lambda: map_rows(features))

    @property
    def preview(self) -> EndPreview | None:
        """The preview of the end model; None while there is nothing to learn from."""
        return self._keep("preview", self._preview)

    @property
    def facts(self) -> ItemFacts:
        """The facts about the training rows that filters use."""
        preview = self.preview
        proba = None if preview is None else preview.proba
        return ItemFacts(self.train.rows, self.votes, proba, self.gold)

    def refresh(self, labels_only: bool = False) -> None:
        """Drop values derived from labels and, unless `labels_only`, from labeling functions."""
        stale = ("gold", "suggestions", "clusters", *_OF_LABELS)
        self._forget(*stale, *(() if labels_only else ("cast",)))

    def has(self, *names: str) -> bool:
        """Whether the named properties are computed, so that a request need not wait for them."""
        return all(name in self._kept for name in names)

    def summary(self) -> pl.DataFrame:
        """Return one row per voter: coverage, overlap, conflict, precision from gold, trust."""
        return self._keep("summary", self._summary)

    def _summary(self) -> pl.DataFrame:
        frame = summarize(self.votes).frame
        known = [self._judged(name) for name in self.splits]
        judged = [pair for pair in known if pair is not None]
        if judged:
            votes = VoteMatrix.concatenate([pair[0] for pair in judged])
            gold = np.concatenate([pair[1] for pair in judged])
            columns = ["voter", "support", "precision", "precision_low", "precision_high"]
            more = summarize(votes, gold).frame.select(columns)
            frame = frame.join(more, on="voter", how="left", maintain_order="left")
        preview = self.preview
        trust = np.full(len(frame), np.nan)
        if preview is not None and len(preview.trust) == len(frame):
            trust = preview.trust
        return frame.with_columns(pl.Series("trust", trust).fill_nan(None))

    def findings(self) -> list[dict[str, Any]]:
        """Return problems of the votes, as sentences."""
        return self._keep("findings", self._findings)

    def _findings(self) -> list[dict[str, Any]]:
        if not self.votes.n_votes:
            return []
        # Test rows are for evaluation; no choice may depend on them.
        splits = {name: split for name, split in self.splits.items() if name != "test"}
        balance = self.project.class_balance
        found = project_findings(self.cast.by_split, splits, class_balance=balance)
        return finding_frame(found).to_dicts()

    def preview_rule(self, rule: LabelRule) -> LFPreview:
        """Return what a rule would do on the training rows."""
        return preview_lf(rule, self.facts)

    def suggestions(self, n: int = 30) -> list[Suggestion]:
        """Return suggested rules, without rules that already exist or were rejected before."""
        # All callers share one computed list: one page shows three, another page's queue thirty.
        most = 3 * max(n, _SUGGESTED)
        found = self._keep("suggestions", lambda: self._suggested(most))
        if most > 3 * _SUGGESTED and len(found) < most:
            self._forget("suggestions")
            found = self._keep("suggestions", lambda: self._suggested(most))
        there = {entry.lf.fingerprint for entry in self.lf_set.read().entries}
        there |= self.lf_set.store.refused()
        return [each for each in found if not there & {each.lf.fingerprint, _first_word(each.lf)}][
            :n
        ]

    def accept(self, rule: LabelRule) -> str:
        """Write a suggested rule to the rules file and return its name."""
        name = self.lf_set.add(rule)
        self._forget("cast", *_OF_LABELS)
        return name

    def refuse(self, rule: LabelRule) -> str:
        """Record that a suggested rule is not wanted, nor any list with the same first word.

        Return its name.
        """
        self.lf_set.store.refuse(rule.fingerprint)
        self.lf_set.store.refuse(_first_word(rule))
        return rule.name

    def clusters(self) -> list[Cluster]:
        """Return groups of rows that no labeling function covers."""
        features = self.features
        if features is None:
            return []
        return self._keep("clusters", lambda: uncovered_clusters(features, self.votes, self.index))

    def to_label(self, n: int, way: str, person: str = "", seed: int = 0) -> Table:
        """Return rows for a person to label next, without rows that the person has already seen."""
        gold = self.gold.copy()
        if person:
            ids = self.train.ids.cast(pl.String)
            seen = ids.is_in(list(self.store.seen_by(person))).to_numpy()
            gold[seen & (gold == ABSTAIN)] = 0  # a skipped row is not shown again
            gold[~seen & self._labeled()] = ABSTAIN  # rows that others labeled measure agreement
        # Features of a million texts take minutes. Until they are there, rows are drawn at random.
        waits = way in ("recommended", "uncertain") and len(self.train) <= _SOON
        X = self.features if waits or self.has("vectors") else None
        open_rows = np.flatnonzero(gold == ABSTAIN)
        if way not in ("recommended", "uncertain") or len(open_rows) <= _CONSIDERED:
            return rows_to_label(self.votes, X, n=n, way=way, gold=gold, seed=seed)
        drawn = np.random.default_rng(seed).choice(open_rows, _CONSIDERED, replace=False)
        rows = np.sort(np.concatenate([drawn, np.flatnonzero(gold != ABSTAIN)]))
        found = rows_to_label(
            self.votes[rows],
            None if X is None else X[rows],
            n=n,
            way=way,
            gold=gold[rows],
            seed=seed,
        )
        frame = found.frame.with_columns(
            pl.Series("row", rows[found.frame["row"].to_numpy()], dtype=pl.Int64),
            pl.col("probability") * (_CONSIDERED / len(open_rows)),
        )
        return replace(found, frame=frame)

    def blame(self, row: int, label: str | None = None, split: str = "train") -> Blame:
        """Return which votes on which neighbors led to a prediction."""
        features = self.features
        if features is None:
            raise FeatureError("Blame needs features that are a matrix of numbers.")
        item = row if split == "train" else self.vectors.by_split[split][row]
        return blame(features, self.votes, item, label, gold=self._learning_gold())

    def score(self) -> dict[str, float]:
        """Return the coverage of the current labeling functions and the preview's figures."""
        return self._keep("score", self._score)

    def _score(self) -> dict[str, float]:
        figures = {"coverage": float(self.votes.covered.mean()), "lfs": float(self._n_voting())}
        preview = self.preview
        if preview is None:
            return figures
        proba, gold = self._estimated(preview)
        if (gold != ABSTAIN).any():
            report = evaluate_proba(proba, gold, self.labels, n_resamples=200)
            figures["labeled"] = float(report.n_items)
            for name in ("accuracy", "macro_f1"):
                score = getattr(report, name)
                limits = {f"{name}_low": score.low, f"{name}_high": score.high}
                figures |= {name: float(score), **{k: float(v) for k, v in limits.items()}}
        return figures

    def silent_classes(self) -> list[str]:
        """Return the classes without a vote and without a label to learn from."""
        known = self._learning_gold()
        heard = {*np.unique(self.votes.class_index).tolist(), *np.unique(known).tolist()}
        return [name for place, name in enumerate(self.labels) if place not in heard]

    def effect(self, rule: LabelRule, replaces: str = "") -> "RuleEffect | None":
        """Return what a rule would change in the preview; None while there is no preview.

        `replaces` names the rule that it would replace.
        """
        before, features = self.preview, self.features
        if before is None or features is None:
            return None
        votes, rows = self.votes, preview_lf(rule, self.facts).rows
        there = votes.covered
        if replaces in votes.voters:
            votes = votes.select([name for name in votes.voters if name != replaces])
        votes = with_voter(votes, "\0", rows, rule.label)
        after = preview_end_model(features, votes, self._learning_gold())
        was, gold = self._estimated(before)
        now, _ = self._estimated(after)
        known = gold != ABSTAIN
        was_right = was[known].argmax(axis=1) == gold[known]
        now_right = now[known].argmax(axis=1) == gold[known]
        changed = before.proba.argmax(axis=1) != after.proba.argmax(axis=1)
        gains, losses = int((now_right & ~was_right).sum()), int((was_right & ~now_right).sum())
        return RuleEffect(
            np.flatnonzero(votes.covered & ~there),
            np.flatnonzero(there & ~votes.covered),
            np.flatnonzero(changed),
            int(known.sum()),
            paired_interval(gains, losses, int(known.sum())) if known.any() else None,
        )

    def _estimated(self, preview: EndPreview) -> tuple[npt.NDArray[np.float64], Gold]:
        """Return the preview's predictions and the gold of dev rows and of random labeled rows."""
        proba = [preview.proba]
        gold = [labeled_gold(self.project, self.train, self.labels, "evaluate")]
        dev = self.splits.get("dev")
        if dev is not None and self.features is not None:
            proba.append(preview.predict_proba(self.vectors.by_split["dev"]))
            gold.append(dev.gold)
        return np.concatenate(proba), np.concatenate(gold)

    def _named_classes(self) -> LabelSpace | None:
        if self.project.classes or not self.project.votes.lfs:
            return None
        return self.lf_set.read().labels

    def _cache_folder(self) -> Any:
        folder = self.project.output_folder / ".cache"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _keep(self, name: str, make: Callable[[], Made]) -> Made:
        with self._lock:
            making = self._making.setdefault(name, threading.RLock())
        with making:
            with self._lock:
                if name in self._kept:
                    found: Made = self._kept[name]
                    return found
                changes = self._changes
            made = make()
            with self._lock:
                # Something changed in the meantime, so the next request computes it again.
                if changes == self._changes or name in _OF_ROWS_ALONE:
                    self._kept[name] = made
            return made

    def _forget(self, *names: str) -> None:
        with self._lock:
            self._changes += 1
            for name in names:
                self._kept.pop(name, None)

    def _cast(self) -> VotesBySplit:
        cache = self._cache_folder()
        if not self.has_lfs:
            return cast_votes(self.project, ProjectRows(self.labels, self.splits, {}), cache)
        return cast_enabled(self.project, self.lf_set.read(), self.splits, self.labels, cache)

    def _crowd(self) -> Aggregation:
        settings = self.project.votes
        path = self.project.path(str(settings.answers))
        known = labeled_gold(self.project, self.train, self.labels)
        names = {
            str(self.train.ids[int(row)]): self.labels.names[known[row]]
            for row in np.flatnonzero((known != ABSTAIN) & self.votes.covered)
        }
        with explained(path):
            return aggregate(
                read_rows(path),
                item=settings.item,
                worker=settings.voter,
                label=settings.label,
                labels=self.labels,
                gold=names or None,
            )

    def _gold(self) -> Gold:
        given = labeled_gold(self.project, self.train, self.labels)
        if (self.train.gold != ABSTAIN).all():
            return given  # the truth of a data set, which nobody has at work
        return as_indices(np.where(given != ABSTAIN, given, self.train.gold))

    def _labeled(self) -> npt.NDArray[np.bool_]:
        return labeled_gold(self.project, self.train, self.labels) != ABSTAIN

    def _learning_gold(self) -> Gold:
        """Return the labels for training, without those for evaluation."""
        return labeled_gold(self.project, self.train, self.labels, "learn")

    def _preview(self) -> EndPreview | None:
        features, gold = self.features, self._learning_gold()
        if features is None or not (self.votes.n_votes or (gold != ABSTAIN).any()):
            return None
        if len(self.labels) <= _ALL_CLASSES and self.silent_classes():
            return None  # it would predict every row to be of the classes that have votes
        return preview_end_model(features, self.votes, gold)

    def _suggested(self, n: int) -> list[Suggestion]:
        """Mine rules from all labels: of people, of the training file, and of the dev rows."""
        rows, gold = self.train.rows.drop("id", strict=False), self.gold
        votes, features, dev = self.votes, self.features, self.splits.get("dev")
        dev_votes = self.cast.by_split.get("dev")
        more = np.empty(0, np.int64) if dev is None else np.flatnonzero(dev.gold != ABSTAIN)
        if dev is not None and len(more):
            if dev_votes is None:  # nobody votes yet
                nothing = as_indices(np.full((len(dev), votes.n_voters), ABSTAIN))
                dev_votes = VoteMatrix.from_dense(nothing, votes.labels, votes.voters)
            own = dev.rows[more].select(pl.col(c).cast(rows[c].dtype) for c in rows.columns)
            rows, gold = pl.concat([rows, own]), np.concatenate([gold, dev.gold[more]])
            both = (votes, dev_votes[more])
            votes = VoteMatrix.concatenate(both)
            if features is not None:
                features = np.concatenate([features, self.vectors.by_split["dev"][more]])
        found = suggest_lfs(rows, votes, gold=gold, features=features, column=self.text_column, n=n)
        return list(found)

    def _judged(self, name: str) -> tuple[VoteMatrix, Gold] | None:
        """Return votes and gold of a split's rows with gold; None without any, and for test."""
        votes = self.cast.by_split.get(name)
        gold = (
            self.gold
            if name == "train"
            else self.splits[name].gold
            if name in self.splits
            else None
        )
        if votes is None or gold is None or name == "test" or (gold == ABSTAIN).all():
            return None
        known = np.flatnonzero(gold != ABSTAIN)
        return votes[known], gold[known]

    def _n_voting(self) -> int:
        return self.votes.n_voters if self.votes.n_votes else 0


def positions(ids: pl.Series, wanted: Sequence[str]) -> dict[str, int]:
    """Return the rows of some ids.

    >>> positions(pl.Series(["a", "b", "c"]), ["c", "x"])
    {'c': 2}
    """
    frame = ids.cast(pl.String).to_frame("item").with_row_index("row")
    found = frame.filter(pl.col("item").is_in(list(wanted)))
    return dict(zip(found["item"].to_list(), found["row"].to_list(), strict=True))


def _first_word(rule: LabelRule) -> str:
    """Return the fingerprint of a rule with only the first keyword; for other rules, their own."""
    if isinstance(rule, Keywords):
        return replace(rule, keywords=rule.keywords[:1]).fingerprint
    return rule.fingerprint
