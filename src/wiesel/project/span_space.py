"""An open project whose labels are of parts of the texts: votes on tokens, spans in documents."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis import Table
from wiesel.analysis.summary import wilson_interval
from wiesel.analysis.table import UNKNOWN
from wiesel.errors import ParameterError
from wiesel.features import TextFeatures
from wiesel.guidance import Blame, Cluster, LabelFacts, LFPreview, Suggestion, rows_to_label
from wiesel.guidance.lf_preview import RuleEffect
from wiesel.guidance.row_map import RowMap, map_rows
from wiesel.io import Split
from wiesel.labels import ABSTAIN, as_indices
from wiesel.lfs.function import LabelRule
from wiesel.project.label_views import SpanView, places_of_spans, view_spans
from wiesel.project.lf_set import LFEntry
from wiesel.project.runs import KeptRun, Predictions, RowMarks
from wiesel.project.workspace import Workspace
from wiesel.spans import Documents, Span, SpanLabels, TokenVotes, apply_span_lfs
from wiesel.spans.patterns import as_span_functions
from wiesel.spans.tags import OUTSIDE
from wiesel.votes import VoteMatrix

__all__ = ["SpanSpace"]

SpanGold = list[list[Span] | None]
_NO_MODEL = "The preview, the suggestions and blame are for labels of whole rows, not for spans."
_NEW = "\0"
_MAP_DIMENSIONS = 50


class SpanSpace(Workspace):
    """An open project with spans: its rows are documents."""

    labels: SpanLabels
    figures = ("precision", "recall", "span_f1")
    has_preview = False

    def _read(self) -> tuple[SpanLabels, dict[str, Split]]:
        from wiesel.project.kinds import kind_of  # it loads torch, as training does

        kind = kind_of(self.project)
        kind.check(self.project)
        found = kind.read(self.project)
        self.documents: dict[str, Documents] = dict(found.splits)
        self._gold_by_split: dict[str, SpanGold] = {}
        splits = {}
        for name, documents in self.documents.items():
            ids = [documents.id_of(number) for number in range(len(documents))]
            texts = pl.Series("text", documents.texts, dtype=pl.String)
            rows = pl.DataFrame([pl.Series("id", ids), texts])
            splits[name] = Split(rows, np.full(len(rows), ABSTAIN))
            self._gold_by_split[name] = list(found.truth.get(name, [None] * len(documents)))
        return found.labels, splits

    @property
    def rule_labels(self) -> dict[str, str]:
        """What a new rule can vote for: each label, and that there is no span."""
        return {name: name for name in self.labels} | {OUTSIDE: "no span"}

    @property
    def text_column(self) -> str:
        """The column of texts."""
        return "text"

    @property
    def features(self) -> None:
        """None: a tagger reads words."""
        return None

    @property
    def map(self) -> RowMap:
        """A map of the training texts by their words."""
        return self._keep("map", self._map)

    def _map(self) -> RowMap:
        texts = self.train.rows[self.text_column].fill_null("")
        return map_rows(TextFeatures("tfidf", n_dimensions=_MAP_DIMENSIONS).fit_transform(texts))

    def gold_of(self, split: str) -> SpanGold:
        """Return the spans of every document, None where they are unknown."""
        return self.gold if split == "train" else self._gold_by_split[split]

    def facts_of(self, split: str, found: Predictions | None) -> LabelFacts:
        """Return the facts about a split's documents that filters use."""
        votes: TokenVotes = self.cast.by_split[split]
        documents, names = votes.documents, self.labels.names
        shape = (len(documents), len(names))
        gold = np.full(shape, ABSTAIN)
        for row, own in enumerate(self.gold_of(split)):
            if own is not None:
                gold[row] = [any(span.label == name for span in own) for name in names]
        predicted = wrong = confidence = None
        if found is not None:
            predicted, confidence = np.zeros(shape, dtype=bool), np.ones(len(documents))
            wrong = np.zeros(len(documents), dtype=bool)
            for row, (own, known) in enumerate(
                zip(found.predicted, self.gold_of(split), strict=True)
            ):
                predicted[row] = [any(span[2] == name for span in own) for name in names]
                sure = [span[3] for span in own if len(span) > 3 and span[3] is not None]
                confidence[row] = min(sure, default=1.0)
                wrong[row] = known is not None and places_of_spans(own) != places_of_spans(known)
        voted: dict[str, npt.NDArray[np.bool_]] = {}

        def voted_by(voter: str) -> npt.NDArray[np.bool_]:
            if voter not in voted:
                voted[voter] = _labels_voted(votes, voter)
            return voted[voter]

        covered, conflict = (
            _of_documents(votes, votes.votes.covered),
            _of_documents(votes, _disputed_tokens(votes.votes)),
        )
        return LabelFacts(
            self.splits[split].rows,
            names,
            voted_by,
            covered,
            conflict,
            gold,
            predicted,
            wrong,
            confidence,
        )

    def previewed(self, split: str) -> None:
        """Return None: there is no linear model of spans."""

    def view(self, run: KeptRun, split: str) -> SpanView:
        """Return what a kept run predicts for a split's documents."""
        is_here = split in self.splits
        rows = self.splits[split if is_here else "train"].ids.cast(pl.String)
        # Figures on training texts are on those that the run did not learn.
        gold = self.gold_of(split) if is_here else self._labels_of_people("evaluate")
        known = dict(zip(rows, gold, strict=True))
        found = view_spans(run, split, self.labels, known)
        return found if is_here else found.among(view_spans(run, "train", self.labels, {}))

    def marks(self, split: str, places: Sequence[int], found: Predictions | None) -> list[RowMarks]:
        """Return how many spans voters, a model and people mark in some documents."""
        votes, gold = self.cast.by_split[split], self.gold_of(split)
        part = votes.select(np.asarray(places, dtype=np.int64))
        marks = []
        for number, place in enumerate(places):
            voted = Counter(span.label for _, span in self._voted(part, number))
            predicted = () if found is None else _counted(found.predicted[place])
            known = gold[place]
            names = None if known is None else tuple(name for _, _, name, *_ in known)
            marks.append(RowMarks(dict(voted), tuple(predicted), names))
        return marks

    def span_lines(self, split: str, place: int, found: Any) -> list[tuple[str, Any]]:
        """Return what voters, a model and people mark in a document."""
        lines: list[tuple[str, Any]] = [("voters", [own for _, own in self.spans_on(split, place)])]
        if found is not None:
            lines.append(("predicted", found.predicted[place]))
        gold = self.gold_of(split)[place]
        return lines if gold is None else [*lines, ("gold", gold)]

    def spans_on(self, split: str, place: int) -> list[tuple[str, Span]]:
        """Return each span that a voter marked in a document, with the voter."""
        return self._voted(self.cast.by_split[split].select([place]), 0)

    def _voted(self, votes: TokenVotes, number: int) -> list[tuple[str, Span]]:
        one = votes.select([number])
        voters = np.unique(one.votes.voter_index)
        names = [one.voters[voter] for voter in voters]
        return [(name, span) for name in names for span in one.spans(name)[0]]

    def votes_on(self, split: str, place: int) -> list[tuple[str, str, float]]:
        """Return each span that a voter marked in a document; no trust is known."""
        text = self.documents[split].texts[place]
        found = self.spans_on(split, place)
        return [
            (f"{voter}: {text[span.start : span.end]}", span.label, float("nan"))
            for voter, span in found
        ]

    def soft_labels_of(self, split: str, place: int) -> tuple[tuple[str, float], ...]:
        """Return nothing: soft labels are of tokens."""
        return ()

    def rows_of(self, voter: str) -> npt.NDArray[np.int64]:
        """Return the training documents that a voter votes on; none if it is switched off."""
        votes: TokenVotes = self.votes
        if voter not in votes.voters:
            return np.empty(0, np.int64)
        return np.flatnonzero(_of_documents(votes, votes.votes.select([voter]).covered))

    def _summary(self) -> pl.DataFrame:
        """Return one row per span function, with the columns of the one-label summary."""
        votes: TokenVotes = self.votes
        judged = [name for name in self.splits if name != "test"]
        disputed, counts = _disputed_tokens(votes.votes), votes.votes.counts().sum(axis=1)
        rows = []
        for voter in votes.voters:
            own = votes.votes.select([voter])
            shares = {
                "coverage": own.covered,
                "overlap": own.covered & (counts > 1),
                "conflict": own.covered & disputed,
            }
            right, known = self._judged_spans(voter, judged)
            low, high = wilson_interval(np.array([right]), np.array([known]))
            tags = np.unique(own.class_index)
            names = self._marked(voter)
            rows.append(
                {
                    "voter": voter,
                    "polarity": names + (["no span"] if 0 in tags else []),
                    **{
                        name: float(_of_documents(votes, mask).mean())
                        for name, mask in shares.items()
                    },
                    "support": known,
                    "precision": right / known if known else None,
                    "precision_low": float(low[0]) if known else None,
                    "precision_high": float(high[0]) if known else None,
                    "trust": None,
                }
            )
        figures = ("coverage", "overlap", "conflict", "precision", "precision_low")
        unknown = dict.fromkeys((*figures, "precision_high", "trust"), pl.Float64)
        return pl.DataFrame(rows, schema_overrides=unknown)

    def _marked(self, voter: str) -> list[str]:
        """Return the labels that a voter, or any of them, marks in the training texts."""
        marked = _labels_voted(self.votes, voter)
        return [name for place, name in enumerate(self.labels) if marked[:, place].any()]

    def check(self) -> None:
        """Do nothing: a tagger reads the texts, which are there."""

    def _judged_spans(self, voter: str, splits: Sequence[str]) -> tuple[int, int]:
        """Return how many spans of a voter are gold, and how many are in documents with gold."""
        right = known = 0
        for name in splits:
            for own, gold in zip(
                self.cast.by_split[name].spans(voter), self.gold_of(name), strict=True
            ):
                if gold is not None:
                    right += len(places_of_spans(own) & places_of_spans(gold))
                    known += len(own)
        return right, known

    def _findings(self) -> list[dict[str, Any]]:
        found = [
            {"sentence": f"{row['voter']} marks nothing in the training texts."}
            for row in self.summary().iter_rows(named=True)
            if not row["coverage"]
        ]
        silent = [name for name in self.labels if name not in self._marked("")]
        found += [{"sentence": f"No span function marks {name}."} for name in silent]
        return found

    def preview_rule(self, rule: LabelRule) -> LFPreview:
        """Return what a rule would mark in the training texts; figures count documents."""
        documents, votes = self.documents["train"], self.votes
        new = apply_span_lfs(as_span_functions([rule.renamed(_NEW)]), documents, labels=self.labels)
        rows = np.flatnonzero(_of_documents(new, new.votes.covered))
        mine = new.votes.dense()[:, 0].astype(np.int64)
        counts = votes.votes.counts()
        against = (mine >= 0) & (counts.sum(axis=1) > counts[np.arange(len(mine)), mine])
        conflicts = int(_of_documents(votes, against).sum())
        covered = _of_documents(votes, votes.votes.covered)
        right = known = 0
        fixes: list[int] = []
        breaks: list[int] = []
        marked = new.spans(_NEW)
        for row in rows.tolist():
            gold = self.gold[row]
            if gold is None:
                continue
            hits = places_of_spans(marked[row]) & places_of_spans(gold)
            right, known = right + len(hits), known + len(marked[row])
            (fixes if len(hits) == len(marked[row]) else breaks).append(row)
        low, high = wilson_interval(np.array([right]), np.array([known]))
        unknown = float("nan")
        return LFPreview(
            rule.label,
            rows,
            len(documents),
            conflicts,
            int((~covered[rows]).sum()),
            np.array(fixes, dtype=np.int64),
            np.array(breaks, dtype=np.int64),
            known,
            right / known if known else unknown,
            float(low[0]) if known else unknown,
            float(high[0]) if known else unknown,
            unknown,
            unknown,
        )

    def suggestions(self, n: int = 30) -> list[Suggestion]:
        """Refuse: rules are suggested for labels of whole rows."""
        raise ParameterError(_NO_MODEL)

    def clusters(self) -> list[Cluster]:
        """Return nothing: documents have no features."""
        return []

    def vote_cells(self) -> tuple[VoteMatrix, npt.NDArray[np.int64]]:
        """Return the votes on tokens, and the document of each."""
        votes: TokenVotes = self.votes
        return votes.votes, votes.documents.document_index

    def disputed(self, n: int) -> npt.NDArray[np.int64]:
        """Return the documents with the most tokens on which voters disagree."""
        votes: TokenVotes = self.votes
        apart = np.add.reduceat(
            np.append(_disputed_tokens(votes.votes), 0), votes.documents.pointers[:-1]
        ) * (votes.documents.lengths > 0)
        order = np.argsort(-apart, kind="stable")
        return order[apart[order] > 0][:n]

    def to_label(self, n: int, way: str, person: str = "", seed: int = 0) -> Table:
        """Return documents to mark next: those with the most disputed tokens, or at random.

        Without a model of spans, `recommended` and `uncertain` are those on which voters disagree
        and those that nobody marks.
        """
        votes: TokenVotes = self.votes
        known = self._seen(person)
        gold = np.where(known, 0, ABSTAIN)
        if way in votes.voters:
            voted = _of_documents(votes, votes.votes.select([way]).covered)
            matrix = self._as_matrix([voted], [way])
        else:
            disputed = _of_documents(votes, _disputed_tokens(votes.votes))
            covered = _of_documents(votes, votes.votes.covered)
            # One voter marks every document, another says otherwise where voters disagree.
            matrix = self._as_matrix([covered, disputed], ["a", "b"], [0, 1])
            if way != "random":
                way = "conflict" if disputed[~known].any() else "random"
        return rows_to_label(matrix, None, n=n, way=way, gold=gold, seed=seed)

    def _as_matrix(
        self,
        voted: Sequence[npt.NDArray[np.bool_]],
        voters: Sequence[str],
        classes: Sequence[int] = (0,),
    ) -> VoteMatrix:
        columns = [np.where(own, k, ABSTAIN) for own, k in zip(voted, classes, strict=True)]
        ids = self.train.ids.to_numpy()
        return VoteMatrix.from_dense(
            as_indices(np.stack(columns, axis=1)), ["no", "yes"], list(voters), ids=ids
        )

    def _seen(self, person: str) -> npt.NDArray[np.bool_]:
        """Whether a person has answered or skipped a document, or its gold spans are in a file."""
        ids = self.train.ids.cast(pl.String)
        own = ids.is_in(list(self.store.seen_by(person))) if person else ids.is_null()
        of_file = self.answers.known(self._gold_by_split["train"])
        return np.asarray(own.to_numpy() | of_file)

    def blame(self, row: int, label: str | None = None, split: str = "train") -> Blame:
        """Refuse: blame needs a linear model."""
        raise ParameterError(_NO_MODEL + " `wiesel explain` says who voted for each span.")

    def _score(self) -> dict[str, float]:
        votes: TokenVotes = self.votes
        covered = float(_of_documents(votes, votes.votes.covered).mean())
        return {"coverage": covered, "lfs": float(self._n_voting())}

    def _n_voting(self) -> int:
        return len(self.votes.voters) if self.votes.votes.n_votes else 0

    def silent_classes(self) -> list[str]:
        """Return nothing: there is no preview that waits for votes."""
        return []

    def effect(self, rule: LabelRule, replaces: str = "") -> RuleEffect | None:
        """Return None: there is no preview."""
        return None

    def shown_rule(self, entry: LFEntry) -> LabelRule | None:
        """Return the rule that a span function was made of."""
        return entry.rule

    def _voted_rows(self) -> Mapping[str, Documents]:
        return self.documents

    def _gold(self) -> SpanGold:
        given: SpanGold = self._labels_of_people()
        of_file = self._gold_by_split["train"]
        return [own if own is not None else file for own, file in zip(given, of_file, strict=True)]

    def _preview(self) -> None:
        return None


def _counted(found: Sequence[Any]) -> list[tuple[str, str]]:
    """Return the label of every span, with its confidence; a dash if there is none."""
    return [
        (str(label), UNKNOWN if not more or more[0] is None else f"{100 * more[0]:.0f} %")
        for _, _, label, *more in found
    ]


def _of_documents(votes: TokenVotes, tokens: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which documents have one of these tokens."""
    found = np.zeros(len(votes.documents), dtype=bool)
    found[votes.documents.document_index[tokens]] = True
    return found


def _disputed_tokens(votes: VoteMatrix) -> npt.NDArray[np.bool_]:
    """Return the tokens for which voters name different labels; where a span begins counts less."""
    counts = votes.counts()
    labels = np.concatenate([counts[:, :1], counts[:, 1::2] + counts[:, 2::2]], axis=1)
    return np.asarray((labels > 0).sum(axis=1) > 1)


def _labels_voted(votes: TokenVotes, voter: str) -> npt.NDArray[np.bool_]:
    """Return (n_documents, n_labels): whether a voter (or any) marks a span of each label."""
    matrix = votes.votes.select([voter]) if voter else votes.votes
    found = np.zeros((len(votes.documents), len(votes.labels)), dtype=bool)
    some = matrix.class_index > 0
    document = votes.documents.document_index[matrix.item_index[some]]
    found[document, (matrix.class_index[some].astype(np.int64) + 1) // 2 - 1] = True
    return found
