"""Taggers trained from votes on tokens, and those trained on a label model's soft labels."""

import copy
import math
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.errors import ParameterError, WieselWarning
from wiesel.label_models import LabelModel
from wiesel.labels import LabelSpace
from wiesel.nn import soft_cross_entropy
from wiesel.parameters import Parameterized, check_number
from wiesel.spans.decoding import outside_where_silent, spans_of_proba
from wiesel.spans.documents import Documents
from wiesel.spans.hidden_markov import HiddenMarkov
from wiesel.spans.marking import MarkedText, explain_spans
from wiesel.spans.metrics import evaluate_spans
from wiesel.spans.tagger import BiLSTMTagger, TokenInputs, TokenLogits
from wiesel.spans.tags import Span, SpanLabels
from wiesel.spans.votes import TokenVotes, check_token_votes
from wiesel.spans.word_features import WordFeatures
from wiesel.training import (
    Batch,
    History,
    Objective,
    TrainingData,
    TrainOptions,
    Validation,
    seeded,
    train,
)
from wiesel.training.validation import predict_logits, proba_of

__all__ = [
    "SpanTagger",
    "SpanTwoStage",
    "check_label_model",
    "fitted_soft_labels",
    "token_soft_labels",
    "tokens_of",
]

Annotated = tuple[Documents, list[list[Span]]]


@dataclass(eq=False, kw_only=True)
class SpanTagger(Parameterized):
    """What taggers share: features, the training loop, prediction of spans, saving."""

    end_model: nn.Module | None = None
    """Any module that returns logits (items, tokens, tags); None means a `BiLSTMTagger` that fits
    the features. It gets a dict of the outputs of `features`, and `mask`. It is copied, never
    changed."""
    features: Any = None
    """What the tagger reads: an object with `fit(documents)` and `transform(documents)`. The latter
    returns arrays by name, with one row for each token. None means `WordFeatures()`."""
    epochs: int = 10
    """How many times training goes through all documents."""
    lr: float = 2e-3
    """The learning rate of Adam."""
    batch_size: int = 32
    """The number of documents (or sections of `length` tokens) per step."""
    length: int = 256
    """Longer documents are cut into sections of this many tokens."""
    weight_decay: float = 1e-6
    """The weight of the squared norm of all parameters in the loss."""
    patience: int | None = None
    """Stop after this many epochs without a better validation F1; None never stops early."""
    seed: int = 0
    """The seed of all random numbers in `fit`."""
    device: str = "auto"
    """Where to train: `auto`, `cpu`, `cuda`, ..."""
    progress: bool | None = None
    """Show a progress bar; None shows it on a terminal and in a notebook."""

    labels_: LabelSpace = field(init=False, repr=False)
    """The BIO tags seen in `fit`."""
    voters_: tuple[str, ...] = field(init=False, repr=False)
    """The voters seen in `fit`, in order."""
    features_: Any = field(init=False, repr=False)
    """The fitted features."""
    end_model_: nn.Module = field(init=False, repr=False)
    """The trained tagger, on the CPU and in evaluation mode."""
    history_: History = field(init=False, repr=False)
    """The history of training, epoch by epoch."""

    @abstractmethod
    def _objective(self, end_model: nn.Module, votes: TokenVotes) -> Objective:
        """Return the networks of the method and their losses."""

    def fit(self, votes: TokenVotes, validation: Annotated | None = None) -> Self:
        """Train on documents and the votes on their tokens.

        `validation=(documents, spans)` keeps the epoch with the best F1 of exact spans. Without a
        single gold span, all epochs would be equally good: it keeps the last, with a warning.
        """
        self.check_options()
        check_token_votes(votes, type(self).__name__, to_learn=True)
        documents, labels = votes.documents, votes.labels
        features = WordFeatures() if self.features is None else copy.deepcopy(self.features)
        self.features_ = features.fit(documents)
        data = TrainingData(self._inputs(documents))
        with seeded(self.seed):
            tagger = self._tagger(len(labels.tags))
            objective = self._objective(TokenLogits(tagger, len(labels.tags)), votes)
            held_out = None if validation is None else self._validation(validation, labels)
            self.history_ = train(objective, data, self._train_options(), held_out)
        trained: TokenLogits = objective.end_model  # type: ignore[assignment]
        self.end_model_ = trained.tagger.eval()
        self._keep(objective)
        self.labels_, self.voters_ = labels.tags, votes.voters
        return self

    def predict_proba(self, documents: Documents | Sequence[str]) -> npt.NDArray[np.float64]:
        """Return P(tag) of every token: (n_tokens, n_tags), as in `labels_.names`."""
        self.check_fitted()
        documents = Documents.of(documents)
        module = TokenLogits(self.end_model_, len(self.labels_))
        logits = predict_logits(module, self._inputs(documents))
        return proba_of(logits) if len(logits) else np.empty((0, len(self.labels_)))

    def predict(self, documents: Documents | Sequence[str]) -> list[list[Span]]:
        """Return the spans of every document or text, with their confidence."""
        documents = Documents.of(documents)
        proba = self.predict_proba(documents)
        return spans_of_proba(proba, documents, SpanLabels.of_tags(self.labels_))

    @abstractmethod
    def soft_labels(self, votes: TokenVotes) -> npt.NDArray[np.float64]:
        """Return the soft label of every token: (n_tokens, n_tags)."""

    def explain(self, votes: TokenVotes) -> list[MarkedText]:
        """Return the documents of votes with the predicted spans, and who voted for them.

        `print` and notebooks show the text with marked spans.
        """
        self.check_fitted()
        votes.votes.check_same_voters(self.voters_, self.labels_)
        return explain_spans(votes, self.predict(votes.documents))

    def save(self, path: str | Path) -> None:
        """Write the model as a folder of data files; `wiesel.spans.load_span_model` reads it."""
        from wiesel.spans.storage import save_span_model

        self.check_fitted()
        save_span_model(self, path)

    def _keep(self, objective: Objective) -> None:
        """Store what the method has learned in addition to the tagger."""

    def _check_options(self) -> None:
        for name in ("epochs", "batch_size", "length"):
            check_number(self, name, getattr(self, name), low=1, whole=True)
        if self.patience is not None:
            check_number(self, "patience", self.patience, low=1, whole=True)
        for name in ("lr", "weight_decay"):
            check_number(self, name, getattr(self, name), low=0)
        if self.end_model is not None and not isinstance(self.end_model, nn.Module):
            raise ParameterError(
                f"The 'end_model' option of {type(self).__name__} must be a torch module; "
                f"got {self.end_model!r:.60}."
            )

    def _inputs(self, documents: Documents) -> TokenInputs:
        return TokenInputs(self.features_.transform(documents), documents, self.length)

    def _tagger(self, n_tags: int) -> nn.Module:
        if self.end_model is not None:
            return copy.deepcopy(self.end_model)
        if not isinstance(self.features_, WordFeatures):
            raise ParameterError("Features of your own need an end_model that reads them.")
        return BiLSTMTagger(self.features_.sizes, n_tags)

    def _validation(self, validation: Annotated, labels: SpanLabels) -> "SpanValidation | None":
        is_pair = isinstance(validation, (tuple, list)) and len(validation) == 2
        if not is_pair or not isinstance(validation[0], Documents):
            raise ParameterError(
                "validation must be (documents, spans): Documents, and a list of gold spans for "
                f"each; got {validation!r:.60}."
            )
        documents, spans = validation
        gold = documents.tags_of(spans, labels)
        if not gold.any():
            warnings.warn(
                f"The {len(documents):,} validation documents have no gold span, so they choose no "
                "epoch.",
                WieselWarning,
                stacklevel=3,
            )
            return None
        inputs: Any = self._inputs(documents)
        return SpanValidation(inputs, gold, len(labels.tags), documents, spans, labels)

    def _train_options(self) -> TrainOptions:
        names = TrainOptions.__dataclass_fields__
        return TrainOptions(**{name: getattr(self, name) for name in names if hasattr(self, name)})


@dataclass(frozen=True)
class SpanValidation(Validation):
    """Held-out documents with gold spans; the score of an epoch is its F1 of exact spans."""

    documents: Documents
    spans: list[list[Span]]
    labels: SpanLabels

    @property
    def metric(self) -> str:
        """The metric of `score`."""
        return "span_f1"

    def score(self, proba: npt.NDArray[np.float64]) -> float:
        """Return the F1 of exact spans."""
        found = spans_of_proba(proba, self.documents, self.labels)
        f1 = evaluate_spans(self.spans, found, self.documents, self.labels).exact["all"].f1
        return 0.0 if math.isnan(f1) else f1


def token_soft_labels(
    label_model: LabelModel | HiddenMarkov, votes: TokenVotes
) -> npt.NDArray[np.float64]:
    """Return a fitted label model's soft label of every token: (n_tokens, n_tags).

    A label model of independent items labels token by token; tokens without votes are outside.
    """
    if isinstance(label_model, HiddenMarkov):
        return label_model.predict_proba(votes)
    return outside_where_silent(label_model.predict_proba(votes.votes), votes.votes.covered)


def fitted_soft_labels(
    label_model: LabelModel | HiddenMarkov, votes: TokenVotes
) -> tuple[LabelModel | HiddenMarkov, npt.NDArray[np.float64]]:
    """Return a fitted copy of a label model, and its soft label of every token."""
    model = copy.deepcopy(label_model)
    fitted = model.fit(votes) if isinstance(model, HiddenMarkov) else model.fit(votes.votes)
    return fitted, token_soft_labels(fitted, votes)


def check_label_model(tagger: SpanTagger, option: str) -> None:
    """Refuse an option that is not a label model."""
    value = getattr(tagger, option)
    if not isinstance(value, (LabelModel, HiddenMarkov)):
        raise ParameterError(
            f"The {option!r} option of {type(tagger).__name__} must be HiddenMarkov() or a label "
            f"model such as MajorityVote(); got {value!r:.60}."
        )


@dataclass(eq=False, kw_only=True)
class SpanTwoStage(SpanTagger):
    """First a label model, then a tagger trained on its soft labels of tokens.

    >>> from wiesel.spans import apply_span_lfs, gazetteer
    >>> documents = Documents.from_texts(["Ada met Bob", "Bob met Ada"] * 8)
    >>> votes = apply_span_lfs(gazetteer("PER", ["Ada", "Bob"]), documents, labels=["PER"])
    >>> model = SpanTwoStage(epochs=10, lr=0.05, batch_size=4, progress=False).fit(votes)
    >>> [span[:3] for span in model.predict(Documents.from_texts(["Ada met Bob"]))[0]]
    [(0, 3, 'PER'), (8, 11, 'PER')]
    """

    label_model: LabelModel | HiddenMarkov = field(default_factory=HiddenMarkov)
    """`HiddenMarkov()`, or any label model, which then labels token by token."""

    label_model_: LabelModel | HiddenMarkov = field(init=False, repr=False)
    """The fitted label model."""

    def soft_labels(self, votes: TokenVotes) -> npt.NDArray[np.float64]:
        """Return the label model's soft label of every token."""
        self.check_fitted()
        return token_soft_labels(self.label_model_, votes)

    def _check_options(self) -> None:
        super()._check_options()
        check_label_model(self, "label_model")

    def _objective(self, end_model: nn.Module, votes: TokenVotes) -> Objective:
        self.label_model_, soft_labels = fitted_soft_labels(self.label_model, votes)
        return SoftTokenObjective(end_model, soft_labels)


class SoftTokenObjective(Objective):
    """One tagger, and the soft labels of all tokens."""

    targets: Tensor

    def __init__(self, end_model: nn.Module, targets: npt.NDArray[np.float64]) -> None:
        super().__init__()
        self.end_model = end_model
        self.register_buffer("targets", torch.from_numpy(targets).float(), persistent=False)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the cross-entropy to the soft labels of the tokens of a batch."""
        logits = self.end_model(batch.inputs)
        return {"end_model": soft_cross_entropy(logits, self.targets[tokens_of(batch)])}


def tokens_of(batch: Batch) -> Tensor:
    """The tokens of a batch, in the order of the tagger's logits."""
    inputs: dict[str, Tensor] = batch.inputs  # type: ignore[assignment]
    return inputs["positions"][inputs["mask"]]
