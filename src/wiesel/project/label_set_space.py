"""An open project whose rows have any number of labels: each label is a task of two classes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis import Table
from wiesel.analysis.summary import wilson_interval
from wiesel.evaluation import evaluate_presence
from wiesel.guidance import Blame, LabelFacts, LFPreview, Suggestion
from wiesel.guidance.lf_preview import RuleEffect
from wiesel.io import Split
from wiesel.label_sets import MultiLabelSpace
from wiesel.labels import ABSTAIN, LabelSpace, as_indices
from wiesel.lfs.function import LabelRule
from wiesel.multilabel import MultiLabelVotes
from wiesel.multilabel.files import LoadedMultiLabelLFs
from wiesel.project.label_views import LabelSetView, view_label_sets
from wiesel.project.labels import answers_for
from wiesel.project.lf_set import LFEntry
from wiesel.project.runs import KeptRun, Predictions, RowMarks
from wiesel.project.settings import ONE_LABEL, Project
from wiesel.project.voting import VotesBySplit
from wiesel.project.workspace import Workspace
from wiesel.votes import VoteMatrix

__all__ = ["LabelSetSpace"]

_NOT = "not "
"""With this before the name of a label, a rule votes against it, as in `MultiLabelSpace.binary`."""


_OF_ROWS = ("leak", "copies")
"""The findings about the rows, whatever the label."""


class LabelSetSpace(Workspace):
    """An open project with several labels for each row.

    What a linear model, a suggestion, blame and the order of labeling need is asked of one label at
    a time, which is an open project with the classes `not sports` and `sports`.
    """

    labels: MultiLabelSpace
    figures = ("micro_f1", "macro_f1", "exact_match")

    def _read(self) -> tuple[MultiLabelSpace, dict[str, Split]]:
        from wiesel.project.kinds import kind_of  # it loads torch, as training does

        kind, state = kind_of(self.project), self.lf_set.read()
        kind.check(self.project)
        named = None if self.project.classes else LoadedMultiLabelLFs((), state.labels)  # type: ignore[arg-type]
        rows = kind.read(self.project, named)
        self._gold_by_split: dict[str, npt.NDArray[np.int64]] = {
            name: rows.truth.get(name, np.full((len(split), len(rows.labels)), ABSTAIN))
            for name, split in rows.splits.items()
        }
        self._one_label: dict[str, _OneLabel] = {}
        return rows.labels, dict(rows.splits)

    @property
    def rule_labels(self) -> dict[str, str]:
        """What a new rule can vote for: each label, and against each."""
        names = list(self.labels)
        return {name: name for name in [*names, *(_NOT + name for name in names)]}

    def on(self, label: str) -> Workspace:
        """Return the task of one label, by its name or by that of its absence."""
        name = label if label in self.labels else label.removeprefix(_NOT)
        self.labels.index(name)
        with self._lock:
            return self._one_label.setdefault(name, _OneLabel(self, name))

    def _each(self) -> list[Workspace]:
        return [self.on(label) for label in self.labels]

    def gold_of(self, split: str) -> npt.NDArray[np.int64]:
        """Return 1 for a label that is present, 0 for one that is not, -1 if it is unknown."""
        return self.gold if split == "train" else self._gold_by_split[split]

    def facts_of(self, split: str, found: Predictions | None) -> LabelFacts:
        """Return the facts about a split's rows that filters use, with a model's predictions."""
        votes: MultiLabelVotes | None = self.cast.by_split.get(split)
        rows, gold, names = self.splits[split].rows, self.gold_of(split), self.labels.names
        wrong = confidence = None
        if found is not None:
            wrong = ((gold >= 0) & (found.predicted != (gold == 1))).any(axis=1)
            sure = np.where(found.predicted, found.proba, 1 - found.proba)
            confidence = np.nan_to_num(sure, nan=0.5).min(axis=1)
        covered = conflict = np.zeros(len(rows), dtype=np.bool_)
        none = np.zeros((len(rows), len(names)), dtype=np.bool_)
        voted: Callable[[str], npt.NDArray[np.bool_]] = lambda voter: none  # noqa: E731
        if votes is not None:
            covered = np.asarray(votes.covered.any(axis=1))
            conflict = np.asarray(np.stack([_both(own) for own in votes.matrices]).any(axis=0))
            voted = _voted_by(votes)
        predicted = None if found is None else found.predicted
        return LabelFacts(rows, names, voted, covered, conflict, gold, predicted, wrong, confidence)

    def previewed(self, split: str) -> Predictions | None:
        """Return the predictions of the labels' previews for a split's rows."""
        if self.preview is None:
            return None
        columns = []
        for one in self._each():
            found = one.previewed(split)
            n_rows = len(self.splits[split])
            columns.append(np.full(n_rows, np.nan) if found is None else found.proba[:, 1])
        proba = np.stack(columns, axis=1)
        return Predictions(proba, np.nan_to_num(proba) > 0.5, "preview")

    def view(self, run: KeptRun, split: str) -> LabelSetView:
        """Return what a kept run predicts for a split's rows."""
        found = view_label_sets(run, split, self.labels)
        is_here = split in self.splits
        return found if is_here else found.among(view_label_sets(run, "train", self.labels))

    def marks(self, split: str, places: Sequence[int], found: Predictions | None) -> list[RowMarks]:
        """Return the votes for labels, the predicted and the known labels of some rows."""
        votes, gold, names = self.cast.by_split.get(split), self.gold_of(split), self.labels.names
        part = None if votes is None else votes[np.asarray(places, dtype=np.int64)]
        counts = [] if part is None else [own.counts()[:, 1] for own in part.matrices]
        marks = []
        for number, place in enumerate(places):
            voted = {
                name: round(own[number])
                for name, own in zip(names, counts, strict=False)
                if round(own[number])
            }
            predicted: tuple[tuple[str, str], ...] = ()
            if found is not None:
                there = np.flatnonzero(found.predicted[place])
                predicted = tuple((names[k], f"{100 * found.proba[place][k]:.0f} %") for k in there)
            known = (gold[place] >= 0).all()
            sets = tuple(names[k] for k in np.flatnonzero(gold[place] == 1)) if known else None
            marks.append(RowMarks(voted, predicted, sets))
        return marks

    def votes_on(self, split: str, place: int) -> list[tuple[str, str, float]]:
        """Return each vote on a row: voter, label (or its absence), and trust in the voter."""
        return [vote for one in self._each() for vote in one.votes_on(split, place)]

    def soft_labels_of(self, split: str, place: int) -> tuple[tuple[str, float], ...]:
        """Return the share of the votes that are for each label, where there are any."""
        if split != "train":
            return ()
        shares = [own[place].counts()[0] for own in self.votes.matrices]
        found = zip(self.labels, shares, strict=True)
        return tuple((name, own[1] / own.sum()) for name, own in found if own.sum() and own[1])

    def rows_of(self, voter: str) -> npt.NDArray[np.int64]:
        """Return the training rows that a voter votes on; none if it is switched off."""
        votes: MultiLabelVotes = self.votes
        if voter not in votes.voters:
            return np.empty(0, np.int64)
        return np.flatnonzero(votes.select([voter]).covered.any(axis=1))

    def _summary(self) -> pl.DataFrame:
        """Return one row per voter over all labels, with the columns of the one-label summary."""
        votes: MultiLabelVotes = self.votes
        trust = [getattr(one.preview, "trust", None) for one in self._each()]
        judged = [
            (self.cast.by_split[name].matrices, self.gold_of(name))
            for name in self.splits
            if name != "test" and name in self.cast.by_split
        ]
        rows = [self._voter(number, votes, trust, judged) for number in range(votes.n_voters)]
        figures = ("coverage", "overlap", "conflict", "precision", "precision_low")
        unknown = dict.fromkeys((*figures, "precision_high", "trust"), pl.Float64)
        return pl.DataFrame(rows, schema_overrides=unknown)

    def _voter(
        self, number: int, votes: MultiLabelVotes, trust: list[Any], judged: list[Any]
    ) -> dict[str, Any]:
        items, others, against, polarity = [], [], [], []
        trusted, n_votes, right, known = 0.0, 0, 0, 0
        for place, own in enumerate(votes.matrices):
            mine = np.flatnonzero(own.voter_index == number)
            item, named = own.item_index[mine], own.class_index[mine]
            counts = own.counts()
            items.append(item)
            others.append(item[counts[item].sum(axis=1) > 1])
            against.append(item[counts[item, 1 - named] > 0])
            polarity += [own.labels.names[k] for k in np.unique(named)]
            if trust[place] is not None and len(mine):
                trusted += float(trust[place][number]) * len(mine)
                n_votes += len(mine)
            for matrices, gold in judged:
                there = np.flatnonzero(matrices[place].voter_index == number)
                truth = gold[matrices[place].item_index[there], place]
                right += int((truth == matrices[place].class_index[there]).sum())
                known += int((truth >= 0).sum())
        low, high = wilson_interval(np.array([right]), np.array([known]))
        shares = [
            len(np.unique(np.concatenate(x))) / len(self.train) for x in (items, others, against)
        ]
        return {
            "voter": votes.voters[number],
            "polarity": polarity,
            **dict(zip(("coverage", "overlap", "conflict"), shares, strict=True)),
            "support": known,
            "precision": right / known if known else None,
            "precision_low": float(low[0]) if known else None,
            "precision_high": float(high[0]) if known else None,
            "trust": trusted / n_votes if n_votes else None,
        }

    def _findings(self) -> list[dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for label, one in zip(self.labels, self._each(), strict=True):
            for row in one.findings():
                if row["kind"] in _OF_ROWS:
                    found.setdefault(row["kind"], row)
                elif row["kind"] != "never_votes":  # most voters vote on one label only
                    found[f"{label} {len(found)}"] = row | {
                        "sentence": f"{label}: {row['sentence']}"
                    }
        return list(found.values())

    def preview_rule(self, rule: LabelRule) -> LFPreview:
        """Return what a rule would do on the training rows, for its label."""
        return self.on(rule.label).preview_rule(rule)

    def suggestions(self, n: int = 30) -> list[Suggestion]:
        """Return suggested rules for and against the labels, each label in its turn."""
        found = [one.suggestions(n) for one in self._each() if not one.silent_classes()]
        return [each for each in chain(*zip_longest(*found)) if each is not None][:n]

    def add_rule(self, rule: LabelRule, replaces: str = "") -> str:
        """Write a rule to the rules file, or in the place of another one, and return its name."""
        there = {entry.name: entry.beside for entry in self.lf_set.read().entries}
        beside = {k: v for k, v in there.get(replaces, {}).items() if k != "against"}
        if rule.label not in self.labels:
            label = self.on(rule.label).labels.names[1]
            rule, beside = replace(rule, label=label, name=rule.name), {"against": True}
        if replaces:
            return self.lf_set.replace(replaces, rule.renamed(replaces), beside)
        return self.lf_set.add(rule, beside)

    def shown_rule(self, entry: LFEntry) -> LabelRule | None:
        """Return the rule of an entry, for a label or for its absence."""
        if entry.rule is None or not entry.beside.get("against"):
            return entry.rule
        return replace(entry.rule, label=_NOT + entry.rule.label, name=entry.name)

    def _covering(self) -> VoteMatrix:
        covered = self.votes.covered.any(axis=1)
        voted = as_indices(np.where(covered, 1, ABSTAIN)[:, None])
        return VoteMatrix.from_dense(voted, ["no", "yes"], ids=self.train.ids.to_numpy())

    def vote_cells(self) -> tuple[VoteMatrix, npt.NDArray[np.int64]]:
        """Return the votes on every pair of a row and a label, and the row of each."""
        votes: MultiLabelVotes = self.votes
        dense = np.concatenate([own.dense() for own in votes.matrices])
        cells = VoteMatrix.from_dense(as_indices(dense), ["absent", "present"], votes.voters)
        return cells, np.tile(np.arange(len(self.train)), len(self.labels))

    def disputed(self, n: int) -> npt.NDArray[np.int64]:
        """Return the rows on which label models disagree most about a label."""
        found = [one.disputed(n) for one in self._each() if one.votes.n_votes]
        rows = [row for row in chain(*zip_longest(*found)) if row is not None]
        return np.array(list(dict.fromkeys(rows))[:n], dtype=np.int64)

    def to_label(self, n: int, way: str, person: str = "", seed: int = 0) -> Table:
        """Return rows to label next: those that the labels ask for, one after the other."""
        if way == "random":
            return self._each()[0].to_label(n, way, person, seed)
        found: list[tuple[Table, pl.DataFrame]] = []
        for place, one in enumerate(self._each()):
            asked = way in ("recommended", "conflict", "uncertain")
            if not asked and not one.votes.select([way]).n_votes:
                continue  # this voter is silent about this label
            table = one.to_label(n, way, person, seed)
            # One random sample is enough.
            own = table.frame if not found else table.frame.filter(pl.col("purpose") == "learn")
            found.append((table, own.with_columns(rank=pl.int_range(pl.len()), label=place)))
        if not found:
            return self._each()[0].to_label(n, way, person, seed)
        every = pl.concat([own for _, own in found], how="diagonal_relaxed")
        every = every.sort("rank", "label", maintain_order=True)
        # A row of the random sample stays one, whatever else it is good for.
        drawn = every.filter(pl.col("purpose") == "evaluate")["item"].implode()
        keep = (pl.col("purpose") == "evaluate") | ~pl.col("item").is_in(drawn)
        every = every.filter(keep).unique("item", keep="first", maintain_order=True).head(n)
        first = found[0][0]
        n_drawn = int((every["purpose"] == "evaluate").sum())
        caption = f"{len(every)} items to label, {n_drawn} of them drawn at random"
        return replace(first, frame=every.drop("rank", "label"), caption=caption)

    def blame(self, row: int, label: str | None = None, split: str = "train") -> Blame:
        """Return which votes on which neighbors led to a label, or to its absence."""
        if label is None:
            from wiesel.errors import ParameterError, listed

            raise ParameterError(f"Name the label to explain: one of {listed(self.rule_labels)}.")
        return self.on(label).blame(row, label, split)

    def _score(self) -> dict[str, float]:
        covered = float(self.votes.covered.any(axis=1).mean())
        figures = {"coverage": covered, "lfs": float(self._n_voting())}
        found, parts = self.previewed("train"), []
        if found is None or np.isnan(found.proba).any():
            return figures
        parts.append((found.proba, self._labels_of_people("evaluate")))
        dev = self.previewed("dev") if "dev" in self.splits else None
        if dev is not None:
            parts.append((dev.proba, self.gold_of("dev")))
        proba, gold = (np.concatenate(part) for part in zip(*parts, strict=True))
        if (gold < 0).all():
            return figures
        report = evaluate_presence(proba, gold, self.labels, n_resamples=200)
        figures["labeled"] = float(report.n_items)
        for name in ("micro_f1", "macro_f1"):
            score = getattr(report, name)
            figures |= {name: float(score), f"{name}_low": score.low, f"{name}_high": score.high}
        return figures

    def silent_classes(self) -> list[str]:
        """Return the labels that nobody votes for, and those that nobody votes against."""
        return [name for one in self._each() for name in one.silent_classes()]

    def effect(self, rule: LabelRule, replaces: str = "") -> RuleEffect | None:
        """Return what a rule would change in the preview of its label."""
        return self.on(rule.label).effect(rule, replaces)

    def _gold(self) -> npt.NDArray[np.int64]:
        given, of_file = self._labels_of_people(), self._gold_by_split["train"]
        if (of_file != ABSTAIN).all():
            return given  # the truth, which nobody has at work
        return np.where(given != ABSTAIN, given, of_file)

    def _preview(self) -> Any:
        """Return the previews of the labels; None if there is none."""
        found = [one.preview for one in self._each()]
        return found if any(each is not None for each in found) else None

    def _forget(self, *names: str) -> None:
        super()._forget(*names)
        for one in list(self._one_label.values()):
            one._forget(*names)


class _OneLabel(Workspace):
    """One label of an open project as a task of two classes: it is absent, or present."""

    def __init__(self, whole: LabelSetSpace, label: str) -> None:
        self.whole, self.place = whole, whole.labels.index(label)
        self.lf_set, self.store = whole.lf_set, whole.store
        self.labels = whole.labels.binary(label)
        self.project = _project_of(whole.project, self.labels)
        self.answers = answers_for(ONE_LABEL, self.labels)
        self.splits = {
            name: replace(split, gold=whole._gold_by_split[name][:, self.place])
            for name, split in whole.splits.items()
        }
        self._start()

    @property
    def vectors(self) -> Any:
        """The vectors of the whole project."""
        return self.whole.vectors

    @property
    def index(self) -> Any:
        """The words of the whole project."""
        return self.whole.index

    def has(self, *names: str) -> bool:
        """Whether the named properties are computed."""
        of_rows = [name for name in names if name in ("vectors", "index")]
        return self.whole.has(*of_rows) and super().has(*(set(names) - set(of_rows)))

    def shown_rule(self, entry: LFEntry) -> LabelRule | None:
        """Return the rule of an entry, for a label or for its absence."""
        return self.whole.shown_rule(entry)

    def _cast(self) -> VotesBySplit:
        found = self.whole.cast
        by_split = {name: own.matrices[self.place] for name, own in found.by_split.items()}
        return replace(found, by_split=by_split)

    def _labels_of_people(self, purpose: str | None = None) -> Any:
        return self.labels.from_indices(self.whole._labels_of_people(purpose)[:, self.place])


def _project_of(project: Project, labels: LabelSpace) -> Project:
    """Return the project of one label, whose class balance is how common this label is."""
    balance, (absent, present) = project.class_balance, labels.names
    training = {name: value for name, value in project.training.items() if name != "class_balance"}
    if isinstance(balance, Mapping) and present in balance:
        share = float(balance[present])
        training["class_balance"] = {absent: 1 - share, present: share}
    return replace(project, training=training, options={})


def _both(votes: VoteMatrix) -> npt.NDArray[np.bool_]:
    """Whether there are votes for and against each item."""
    return np.asarray((votes.counts() > 0).all(axis=1))


def _voted_by(votes: MultiLabelVotes) -> Callable[[str], npt.NDArray[np.bool_]]:
    """Return what tells for which labels of each item a voter, or any of them, votes."""

    def voted(voter: str) -> npt.NDArray[np.bool_]:
        own = votes.select([voter]) if voter else votes
        return np.stack([matrix.counts()[:, 1] > 0 for matrix in own.matrices], axis=1)

    return voted
