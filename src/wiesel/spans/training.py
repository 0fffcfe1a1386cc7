"""Taggers from votes on tokens: trained on the soft labels of a label model, or as WeaSEL does."""

import copy
import math
from abc import abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from wiesel.errors import ParameterError, VoteError
from wiesel.label_models import LabelModel, MajorityVote
from wiesel.labels import LabelSpace
from wiesel.nn import AGREEMENT_LOSSES, VoteEncoder, encode_votes, mlp_encoder, soft_cross_entropy
from wiesel.nn.encoders import EncoderLayers, Weighing
from wiesel.parameters import Parameterized, check_number
from wiesel.spans.decoding import outside_where_silent, spans_of_proba
from wiesel.spans.documents import Documents
from wiesel.spans.hidden_markov import HiddenMarkov
from wiesel.spans.metrics import evaluate_spans
from wiesel.spans.tagger import BiLSTMTagger, TokenInputs, TokenLogits
from wiesel.spans.tags import Span, SpanLabels
from wiesel.spans.votes import TokenVotes
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
from wiesel.votes import VoteMatrix

__all__ = ["SpanTagger", "SpanTwoStage", "SpanWeaSEL", "token_soft_labels"]

Annotated = tuple[Documents, list[list[Span]]]


@dataclass(eq=False, kw_only=True)
class SpanTagger(Parameterized):
    """What taggers share: features, the training loop, prediction of spans, saving."""

    end_model: nn.Module | None = None
    """Any module that returns logits (items, tokens, tags); None is a `BiLSTMTagger` that fits the
    features. It gets a dict of what `features` gives, and `mask`. It is copied, never changed."""
    features: Any = None
    """What the tagger reads: an object with `fit(documents)` and `transform(documents)`, which
    returns arrays of one row for each token by name; None is `WordFeatures()`."""
    epochs: int = 10
    """How often training goes through all documents."""
    lr: float = 2e-3
    """The learning rate of Adam."""
    batch_size: int = 32
    """How many documents (or stretches of `length` tokens) make a step."""
    length: int = 256
    """Longer documents are cut into stretches of so many tokens."""
    weight_decay: float = 1e-6
    """The weight of the squared norm of all parameters in the loss."""
    patience: int | None = None
    """Stop when the validation F1 has not improved for so many epochs; None never does."""
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
    """What happened, epoch by epoch."""

    @abstractmethod
    def _objective(self, end_model: nn.Module, votes: TokenVotes) -> Objective:
        """Return the networks of the method and their losses."""

    def fit(self, votes: TokenVotes, validation: Annotated | None = None) -> Self:
        """Train on documents and the votes on their tokens.

        `validation=(documents, spans)` keeps the epoch with the best F1 of exact spans.
        """
        self.check_options()
        if not isinstance(votes, TokenVotes):
            raise VoteError(
                f"{type(self).__name__} needs TokenVotes; got {type(votes).__name__}. "
                "Make them with apply_span_lfs(functions, documents, labels=...)."
            )
        if votes.documents.n_tokens == 0:
            raise VoteError("There is nothing to learn from: the documents have no tokens.")
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
        self.labels_, self.voters_ = labels.tags, votes.voters
        return self

    def predict_proba(self, documents: Documents) -> npt.NDArray[np.float64]:
        """Return P(tag) of every token: (n_tokens, n_tags), as in `labels_.names`."""
        self.check_fitted()
        module = TokenLogits(self.end_model_, len(self.labels_))
        logits = predict_logits(module, self._inputs(documents))
        return proba_of(logits) if len(logits) else np.empty((0, len(self.labels_)))

    def predict(self, documents: Documents) -> list[list[Span]]:
        """Return the spans of every document, with their confidence."""
        proba = self.predict_proba(documents)
        return spans_of_proba(proba, documents, SpanLabels.of_tags(self.labels_))

    def save(self, path: str | Path) -> None:
        """Write the model as a folder of data files; `wiesel.spans.load_span_model` reads it."""
        from wiesel.spans.storage import save_span_model

        self.check_fitted()
        save_span_model(self, path)

    def _check_options(self) -> None:
        for name in ("epochs", "batch_size", "length"):
            check_number(self, name, getattr(self, name), low=1, whole=True)
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

    def _validation(self, validation: Annotated, labels: SpanLabels) -> "SpanValidation":
        documents, spans = validation
        gold = documents.tags_of(spans, labels)
        inputs: Any = self._inputs(documents)
        return SpanValidation(inputs, gold, len(labels.tags), documents, spans, labels)

    def _train_options(self) -> TrainOptions:
        names = TrainOptions.__dataclass_fields__
        return TrainOptions(**{name: getattr(self, name) for name in names if hasattr(self, name)})


@dataclass(frozen=True)
class SpanValidation(Validation):
    """Held-out documents with gold spans; an epoch is as good as its F1 of exact spans."""

    documents: Documents
    spans: list[list[Span]]
    labels: SpanLabels

    @property
    def metric(self) -> str:
        """What `score` measures."""
        return "span_f1"

    def score(self, proba: npt.NDArray[np.float64]) -> float:
        """Return the F1 of exact spans."""
        found = spans_of_proba(proba, self.documents, self.labels)
        f1 = evaluate_spans(self.spans, found, self.documents, self.labels).exact["all"].f1
        return 0.0 if math.isnan(f1) else f1


def token_soft_labels(
    label_model: LabelModel | HiddenMarkov, votes: TokenVotes
) -> npt.NDArray[np.float64]:
    """Return what a fitted label model says of every token: (n_tokens, n_tags).

    A label model of independent items goes token by token, and what nobody voted on is outside.
    """
    if isinstance(label_model, HiddenMarkov):
        return label_model.predict_proba(votes)
    return outside_where_silent(label_model.predict_proba(votes.votes), votes.votes.covered)


@dataclass(eq=False, kw_only=True)
class SpanTwoStage(SpanTagger):
    """A label model first, then a tagger on its soft labels of tokens.

    >>> from wiesel.spans import apply_span_lfs, gazetteer
    >>> documents = Documents.from_texts(["Ada met Bob", "Bob met Ada"] * 8)
    >>> votes = apply_span_lfs(gazetteer("PER", ["Ada", "Bob"]), documents, labels=["PER"])
    >>> model = SpanTwoStage(epochs=30, lr=0.02, batch_size=4, progress=False).fit(votes)
    >>> [span[:3] for span in model.predict(Documents.from_texts(["Ada met Bob"]))[0]]
    [(0, 3, 'PER'), (8, 11, 'PER')]
    """

    label_model: LabelModel | HiddenMarkov = field(default_factory=HiddenMarkov)
    """`HiddenMarkov()`, or any label model, which then goes token by token."""

    label_model_: LabelModel | HiddenMarkov = field(init=False, repr=False)
    """The fitted label model."""

    def soft_labels(self, votes: TokenVotes) -> npt.NDArray[np.float64]:
        """Return what the label model says of every token."""
        self.check_fitted()
        return token_soft_labels(self.label_model_, votes)

    def _check_options(self) -> None:
        super()._check_options()
        if not isinstance(self.label_model, (LabelModel, HiddenMarkov)):
            raise ParameterError(
                "The 'label_model' option of SpanTwoStage must be HiddenMarkov() or a label model "
                f"such as MajorityVote(); got {self.label_model!r:.60}."
            )

    def _objective(self, end_model: nn.Module, votes: TokenVotes) -> Objective:
        model = copy.deepcopy(self.label_model)
        fitted = model.fit(votes) if isinstance(model, HiddenMarkov) else model.fit(votes.votes)
        self.label_model_ = fitted
        return SoftTokenObjective(end_model, token_soft_labels(fitted, votes))


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
        return {"end_model": soft_cross_entropy(logits, self.targets[_tokens(batch)])}


@dataclass(eq=False, kw_only=True)
class SpanWeaSEL(SpanTagger):
    """WeaSEL on tokens: an encoder weighs the votes on each token, and learns with the tagger.

    The encoder reads the votes on a token and how its two neighbors were voted on. A voter more
    votes `O` where nobody votes (`TokenVotes.with_silence`); else `O` would hardly be seen. For
    `warm_up` epochs both networks learn the vote shares; then each learns from the other.

    >>> from wiesel.spans import apply_span_lfs, gazetteer
    >>> documents = Documents.from_texts(["Ada met Bob", "Bob met Ada"] * 8)
    >>> votes = apply_span_lfs(gazetteer("PER", ["Ada", "Bob"]), documents, labels=["PER"])
    >>> model = SpanWeaSEL(epochs=30, lr=0.02, batch_size=4, progress=False).fit(votes)
    >>> [span[:3] for span in model.predict(Documents.from_texts(["Ada met Bob"]))[0]]
    [(0, 3, 'PER'), (8, 11, 'PER')]
    """

    warm_up: int = 2
    """The number of first epochs in which both networks learn the vote shares."""
    hidden: tuple[int, ...] = (70, 70)
    """The hidden layers of the encoder."""

    encoder_: VoteEncoder = field(init=False, repr=False)
    """The trained encoder."""

    def _check_options(self) -> None:
        super()._check_options()
        check_number(self, "warm_up", self.warm_up, low=0, whole=True)

    def _objective(self, end_model: nn.Module, votes: TokenVotes) -> Objective:
        objective = WeaSELTokenObjective(end_model, votes.with_silence(), self.warm_up, self.hidden)
        self.encoder_ = objective.encoder
        return objective


class WeaSELTokenObjective(Objective):
    """The tagger and the encoder, and the losses that make them agree on every token."""

    shares: Tensor
    around: Tensor
    log_prior: Tensor

    def __init__(
        self, end_model: nn.Module, votes: TokenVotes, warm_up: int, hidden: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.end_model = end_model
        matrix = votes.votes
        n_voters, n_tags = matrix.n_voters, matrix.n_classes
        self._votes: sp.csr_array[Any, Any] = matrix.one_hot()
        self._shape = (n_voters, n_tags)
        shares = MajorityVote().fit(matrix).predict_proba(matrix)
        around = _neighbors(matrix, votes.documents)
        n_inputs = n_voters * (n_tags + 1) + around.shape[1]
        network = mlp_encoder(n_inputs, n_voters, EncoderLayers(hidden=hidden))
        # Until the last layer learns, all voters weigh the same.
        nn.init.zeros_(network[-1].weight)  # type: ignore[arg-type]
        weighing = Weighing(tau_2=math.sqrt(n_voters), voting_only=True)
        self.encoder = VoteEncoder(network, n_voters, weighing)
        self.warm_up, self.warming = warm_up, warm_up > 0
        for name, values in (("shares", shares), ("around", around)):
            self.register_buffer(name, torch.from_numpy(values).float(), persistent=False)
        prior = np.log(np.clip(shares.mean(axis=0), 1e-6, None))
        self.register_buffer("log_prior", torch.from_numpy(prior).float())

    def start_epoch(self, epoch: int, data: TrainingData) -> None:
        """Note whether the networks still learn the vote shares."""
        self.warming = epoch <= self.warm_up

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of the tagger and of the encoder."""
        tokens = _tokens(batch)
        dense = torch.from_numpy(self._votes[tokens.cpu().numpy()].toarray())
        dense = dense.view(-1, *self._shape).to(tokens.device)
        encoded = encode_votes(dense, "one_hot", self.around[tokens])
        _, label = self.encoder.soft_label(encoded, dense)
        logits = self.end_model(batch.inputs)
        label = label + self.log_prior
        if self.warming:
            wanted = self.shares[tokens]
            return {
                "end_model": soft_cross_entropy(logits, wanted),
                "encoder": soft_cross_entropy(label, wanted),
            }
        return AGREEMENT_LOSSES["symmetric"](logits, label)


def _tokens(batch: Batch) -> Tensor:
    """The tokens of a batch, in the order of the tagger's logits."""
    inputs: dict[str, Tensor] = batch.inputs  # type: ignore[assignment]
    return inputs["positions"][inputs["mask"]]


def _neighbors(votes: VoteMatrix, documents: Documents) -> npt.NDArray[np.float64]:
    """The vote shares of the token before and of the token after, zeros at the ends."""
    counts = votes.counts()
    counts /= np.maximum(counts.sum(axis=1, keepdims=True), 1)
    before, after = np.zeros_like(counts), np.zeros_like(counts)
    follows = np.flatnonzero(np.diff(documents.document_index) == 0)
    before[follows + 1], after[follows] = counts[follows], counts[follows + 1]
    return np.concatenate([before, after], axis=1)
