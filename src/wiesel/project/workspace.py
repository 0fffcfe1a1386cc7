"""An open project: rows, votes, labels, and everything derived from them.

Nothing is computed twice: votes come from the project's cache, and everything else is kept until
its inputs change. The command line and the workbench both use it, from several threads. A thread
that needs a value under computation waits for that value and for nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.aggregate import Aggregation
from wiesel.analysis import Table, summarize
from wiesel.analysis.findings import finding_frame
from wiesel.errors import FeatureError
from wiesel.evaluation import evaluate_proba
from wiesel.evaluation.intervals import paired_interval
from wiesel.evaluation.metrics import predicted_classes
from wiesel.explain import certainty
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
from wiesel.guidance.labeling_order import reading_disagreement
from wiesel.guidance.lf_preview import RuleEffect, with_voter
from wiesel.guidance.row_map import RowMap, map_rows
from wiesel.guidance.suggesting import text_column_of
from wiesel.guidance.terms import distinctive_terms
from wiesel.io import FilePath, Split
from wiesel.labels import ABSTAIN, LabelSpace, as_indices
from wiesel.lfs.function import LabelRule
from wiesel.lfs.text_rules import Keywords
from wiesel.progress import listening
from wiesel.project.insights import (
    aggregated_answers,
    evidence_of_rules,
    project_findings,
)
from wiesel.project.kept_values import KeptValues
from wiesel.project.labels import answers_for, label_store, labeled_gold
from wiesel.project.lf_set import LFEntry, LFSet
from wiesel.project.rows import ProjectRows, read_splits, refuse_several_labels
from wiesel.project.runs import KeptRun, Predictions, RowMarks, view_run
from wiesel.project.settings import SEVERAL_LABELS, SPANS, Project, read_project
from wiesel.project.vectors import check_inputs, make_vectors
from wiesel.project.voting import VotesBySplit, cast_enabled, cast_votes
from wiesel.votes import VoteMatrix

__all__ = ["Workspace", "open_workspace"]

Gold = npt.NDArray[np.int64]

_OF_ROWS_ALONE = ("vectors", "index", "map")
"""Properties that stay valid when labels or labeling functions change."""
_OF_LABELS = ("preview", "summary", "findings", "score", "crowd")
"""What changes with the labels and with the labeling functions."""
_SOON = 5_000
"""Features of so many rows are there in a moment, so labeling waits for them."""
_CONSIDERED = 5_000
"""Of more rows, so many drawn at random are considered for labeling, so that nobody waits."""
_ALL_CLASSES = 20
"""Up to so many classes, there is no preview before each has a vote or a label."""
_SUGGESTED = 30
"""The minimum number of suggestions to search for."""


class Workspace(KeptValues):
    """An open project with one label for each row; `refresh` reads files and labels again.

    `open_workspace` opens projects of all kinds. The pages of the workbench ask a workspace what
    depends on the kind of task.
    """

    figures: ClassVar[tuple[str, ...]] = ("accuracy", "f1", "auc")
    """The figures by which runs are listed."""
    unchanging = _OF_ROWS_ALONE
    has_preview: ClassVar[bool] = True
    """Whether a linear model previews the end model, once there are votes."""
    doing = ""
    """How far the slow work on features is, in words."""
    sampled = ""
    """Which rows previews, suggestions and the map are made from, unless from all."""

    def __init__(self, project: Project | FilePath) -> None:
        self.project = project if isinstance(project, Project) else read_project(project)
        self.lf_set = LFSet(self.project)
        self.store = label_store(self.project)
        self.labels, self.splits = self._read()
        self.answers = answers_for(self.project.task, self.labels)
        self._start()

    def _read(self) -> tuple[Any, dict[str, Split]]:
        """Return the labels and the rows of all splits."""
        refuse_several_labels(self.project)
        return read_splits(self.project, self._named_classes())

    def check(self) -> None:
        """Refuse rows from which the features cannot be computed, before any slow step."""
        check_inputs(self.project, self.splits)

    @property
    def rule_labels(self) -> dict[str, str]:
        """What a new rule can vote for, and how people read it."""
        return {name: name for name in self.labels}

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
        return self._keep("crowd", lambda: aggregated_answers(self, self._labels_of_people()))

    @property
    def votes(self) -> Any:
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
    def gold(self) -> Any:
        """The labels of the training rows: those people gave, else those in the file."""
        return self._keep("gold", self._gold)

    def gold_of(self, split: str) -> Any:
        """Return the labels of a split's rows."""
        return self.gold if split == "train" else self.splits[split].gold

    @property
    def features(self) -> npt.NDArray[Any] | None:
        """The features of the training rows; None if they are not a matrix of numbers."""
        found = self.vectors.by_split["train"]
        is_matrix = not isinstance(found, dict) and found.ndim == 2 and found.dtype.kind == "f"
        return found if is_matrix else None

    @property
    def vectors(self) -> Any:
        """The end-model inputs of every split; computed once and cached on disk."""
        return self._keep("vectors", self._vectors)

    def _vectors(self) -> Any:
        with listening(self._hear):
            found = make_vectors(self.project, self.splits, self._cache_folder())
        self._hear("")
        return found

    def _hear(self, text: str) -> None:
        self.doing = text

    @property
    def index(self) -> TermIndex | None:
        """The words of the training texts; None if there is no text."""
        column = self.text_column
        if column is None:
            return None
        return self._keep(
            "index", lambda: TermIndex.of(self.train.rows[column].fill_null("").to_list())
        )

    def typical_words(self, rows: Any, n: int, least_lift: float) -> list[str]:
        """Return the words that distinguish some training rows from all others."""
        index = self.index
        return [] if index is None else distinctive_terms(index, rows, n, least_lift=least_lift)

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

    def facts_of(self, split: str, found: Predictions | None) -> Any:
        """Return the facts about a split's rows that filters use, with a model's predictions."""
        part, votes = self.splits[split], self.cast.by_split.get(split)
        if found is None:
            return ItemFacts(part.rows, votes, None, self.gold_of(split))
        return ItemFacts(part.rows, votes, found.proba, self.gold_of(split), found.predicted)

    def previewed(self, split: str) -> Predictions | None:
        """Return the predictions of the preview for a split's rows; None without a preview."""
        preview = self.preview
        if preview is None:
            return None
        vectors = self.vectors.by_split
        proba = preview.proba if split == "train" else preview.predict_proba(vectors[split])
        return Predictions(proba, predicted_classes(proba), "preview")

    def view(self, run: KeptRun, split: str) -> Any:
        """Return what a kept run predicts for a split's rows."""
        return view_run(run, split, self.labels)

    def marks(self, split: str, places: Sequence[int], found: Predictions | None) -> list[RowMarks]:
        """Return the votes, the prediction and the label of some rows."""
        votes, gold, names = self.cast.by_split.get(split), self.gold_of(split), self.labels.names
        counts = None if votes is None else votes[np.asarray(places, dtype=np.int64)].counts()
        marks = []
        for number, place in enumerate(places):
            voted = {} if counts is None else dict(zip(names, counts[number], strict=True))
            predicted: tuple[tuple[str, str], ...] = ()
            if found is not None:
                named = int(found.predicted[place])
                sure = certainty(found.proba[place].tolist(), named, found.threshold)
                predicted = ((names[named], sure),)
            voted = {name: round(count) for name, count in voted.items() if round(count)}
            known = None if gold[place] < 0 else (names[gold[place]],)
            marks.append(RowMarks(voted, predicted, known))
        return marks

    def span_lines(self, split: str, place: int, found: Any) -> list[tuple[str, Any]]:
        """Return who marks which spans in a row's text; nothing if rows have labels."""
        return []

    def votes_on(self, split: str, place: int) -> list[tuple[str, str, float]]:
        """Return each vote on a row: voter, class, and trust in the voter (NaN if unknown)."""
        votes, preview = self.cast.by_split.get(split), self.preview
        if votes is None or not votes.n_votes:
            return []
        own, unknown = votes[place], float("nan")
        return [
            (
                votes.voters[voter],
                self.labels.names[label],
                unknown if preview is None else float(preview.trust[voter]),
            )
            for voter, label in zip(own.voter_index, own.class_index, strict=True)
        ]

    def soft_labels_of(self, split: str, place: int) -> tuple[tuple[str, float], ...]:
        """Return what the votes on a training row say together; nothing for other rows."""
        preview = self.preview
        if preview is None or split != "train":
            return ()
        best = int(preview.soft_labels[place].argmax())
        return ((self.labels.names[best], float(preview.soft_labels[place][best])),)

    def rows_of(self, voter: str) -> Gold:
        """Return the training rows that a voter votes on; none if it is switched off."""
        votes = self.votes
        if voter not in votes.voters:
            return np.empty(0, np.int64)
        return np.flatnonzero(votes.select([voter]).covered)

    def refresh(self, labels_only: bool = False) -> None:
        """Drop values derived from labels and, unless `labels_only`, from labeling functions."""
        stale = ("gold", "suggestions", "clusters", *_OF_LABELS)
        self._forget(*stale, *(() if labels_only else ("cast",)))

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
        entries = self.lf_set.read().entries
        shown = (self.shown_rule(entry) for entry in entries)
        there = {rule.fingerprint for rule in shown if rule is not None}
        there |= self.lf_set.store.refused()
        return [each for each in found if not there & {each.lf.fingerprint, _first_word(each.lf)}][
            :n
        ]

    def accept(self, rule: LabelRule) -> str:
        """Write a suggested rule to the rules file and return its name."""
        name = self.add_rule(rule)
        self._forget("cast", *_OF_LABELS)
        return name

    def add_rule(self, rule: LabelRule, replaces: str = "") -> str:
        """Write a rule to the rules file, or in the place of another one, and return its name."""
        if replaces:
            return self.lf_set.replace(replaces, rule.renamed(replaces))
        return self.lf_set.add(rule)

    def shown_rule(self, entry: LFEntry) -> LabelRule | None:
        """Return the rule of an entry as people change it."""
        return entry.rule

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
        return self._keep(
            "clusters", lambda: uncovered_clusters(features, self._covering(), self.index)
        )

    def _covering(self) -> VoteMatrix:
        """Return votes that tell which rows are covered."""
        return self.votes

    def vote_cells(self) -> tuple[VoteMatrix, Gold]:
        """Return the votes on whatever voters can disagree about, and the row of each."""
        return self.votes, as_indices(np.arange(len(self.train)))

    def disputed(self, n: int) -> Gold:
        """Return the rows on which label models disagree most."""
        apart = reading_disagreement(self.votes, self.features)
        return as_indices(np.argsort(-apart, kind="stable")[:n])

    def to_label(self, n: int, way: str, person: str = "", seed: int = 0) -> Table:
        """Return rows for a person to label next, without rows that the person has already seen."""
        gold, rows = self.gold.copy(), np.arange(len(self.gold))
        if person:
            ids = self.train.ids.cast(pl.String)
            seen = ids.is_in(list(self.store.seen_by(person))).to_numpy()
            rows = rows[~seen | (gold != ABSTAIN)]  # a skipped row is not shown again
            gold[~seen & self._labeled()] = ABSTAIN  # rows that others labeled measure agreement
        # Features of a million texts take minutes. Until they are there, rows are drawn at random.
        waits = way in ("recommended", "uncertain") and len(self.train) <= _SOON
        X = self.features if waits or self.has("vectors") else None
        open_rows, share = rows[gold[rows] == ABSTAIN], 1.0
        if way in ("recommended", "uncertain") and len(open_rows) > _CONSIDERED:
            drawn = np.random.default_rng(seed).choice(open_rows, _CONSIDERED, replace=False)
            rows = np.sort(np.concatenate([drawn, rows[gold[rows] != ABSTAIN]]))
            share = _CONSIDERED / len(open_rows)
        votes = self.votes
        if len(rows) < len(gold):  # a copy, which a million rows need not have
            votes, X = votes[rows], None if X is None else X[rows]
        found = rows_to_label(votes, X, n=n, way=way, gold=gold[rows], seed=seed)
        frame = found.frame.with_columns(
            pl.Series("row", rows[found.frame["row"].to_numpy()], dtype=pl.Int64),
            pl.col("probability") * share,
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

    def effect(self, rule: LabelRule, replaces: str = "") -> RuleEffect | None:
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
        gold = [self._labels_of_people("evaluate")]
        dev = self.splits.get("dev")
        if dev is not None and self.features is not None:
            proba.append(preview.predict_proba(self.vectors.by_split["dev"]))
            gold.append(self.gold_of("dev"))
        return np.concatenate(proba), np.concatenate(gold)

    def _named_classes(self) -> LabelSpace | None:
        if self.project.classes or not self.project.votes.lfs:
            return None
        return self.lf_set.read().labels

    def _cache_folder(self) -> Any:
        folder = self.project.output_folder / ".cache"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _cast(self) -> VotesBySplit:
        cache, rows = self._cache_folder(), self._voted_rows()
        if not self.has_lfs:
            return cast_votes(self.project, ProjectRows(self.labels, rows, {}), cache)
        return cast_enabled(self.project, self.lf_set.read(), rows, self.labels, cache)

    def _voted_rows(self) -> Mapping[str, Any]:
        """Return the rows of all splits as labeling functions read them."""
        return self.splits

    def _labels_of_people(self, purpose: str | None = None) -> Any:
        """Return the labels that people gave to the training rows, for one purpose or for all."""
        return labeled_gold(self.project, self.train, self.labels, purpose)

    def _gold(self) -> Any:
        given = self._labels_of_people()
        if (self.train.gold != ABSTAIN).all():
            return given  # the truth of a data set, which nobody has at work
        return as_indices(np.where(given != ABSTAIN, given, self.train.gold))

    def _labeled(self) -> npt.NDArray[np.bool_]:
        return self.answers.known(self._labels_of_people())

    def _learning_gold(self) -> Any:
        """Return the labels for training, without those for evaluation."""
        return self._labels_of_people("learn")

    def _preview(self) -> EndPreview | None:
        features, gold = self.features, self._learning_gold()
        if features is None or not (self.votes.n_votes or (gold != ABSTAIN).any()):
            return None
        if len(self.labels) <= _ALL_CLASSES and self.silent_classes():
            return None  # it would predict every row to be of the classes that have votes
        return preview_end_model(features, self.votes, gold)

    def _suggested(self, n: int) -> list[Suggestion]:
        """Mine rules from all labels: of people, of the training file, and of the dev rows."""
        evidence = evidence_of_rules(self, self.splits.get("dev"))
        return list(
            suggest_lfs(
                *evidence[:2], gold=evidence[2], features=evidence[3], column=self.text_column, n=n
            )
        )

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


def open_workspace(project: Project | FilePath) -> Workspace:
    """Open a project of any kind of task."""
    found = project if isinstance(project, Project) else read_project(project)
    if found.task == SPANS:
        from wiesel.project.span_space import SpanSpace

        return SpanSpace(found)
    if found.task == SEVERAL_LABELS:
        from wiesel.project.label_set_space import LabelSetSpace

        return LabelSetSpace(found)
    from wiesel.project.large_space import MANY_ROWS, LargeSpace

    opened = Workspace(found)
    return LargeSpace(opened) if len(opened.train) > MANY_ROWS else opened


def _first_word(rule: LabelRule) -> str:
    """Return the fingerprint of a rule with only the first keyword; for other rules, their own."""
    if isinstance(rule, Keywords):
        return replace(rule, keywords=rule.keywords[:1]).fingerprint
    return rule.fingerprint
