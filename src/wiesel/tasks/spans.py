"""Labels for parts of texts: a document is an item, its tokens have tags, its answer is spans."""

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.errors import FeatureError, ParameterError, SavedModelError
from wiesel.label_models import LabelModel, MajorityVote
from wiesel.labels import LabelSpace, checked_proba
from wiesel.nn import soft_cross_entropy
from wiesel.nn.end_models import Ensemble, logits_of
from wiesel.spans.documents import (
    Document,
    Documents,
    outside_where_silent,
    reads_sequences,
    spans_of_proba,
    token_soft_labels,
)
from wiesel.spans.hidden_markov import HiddenMarkov
from wiesel.spans.marking import MarkedText, explain_spans
from wiesel.spans.metrics import evaluate_spans
from wiesel.spans.tags import Span, SpanLabels
from wiesel.spans.votes import TokenVotes
from wiesel.tasks.base import (
    Array,
    FitLabelModel,
    Task,
    checked_copies,
    checked_weights,
    find_copies,
    merge_copies,
    originals_of,
)
from wiesel.training import Batch, History, Inputs, Objective, Record, TrainingData, Validation
from wiesel.training.inputs import as_inputs
from wiesel.training.loop import ENOUGH_GOLD, predict_logits, proba_of
from wiesel.training.token_inputs import TokenInputs
from wiesel.votes import VoteMatrix

__all__ = ["SpanValidation", "SpansTask", "TokenLogits", "tokens_of"]

_DOUBT = 0.05
"""The least P(tag) of a tagger and of votes where they are combined."""
_OUTSIDE = 0.5
"""What `O` counts there. `experiments/decisions.md` has the figures of both."""


class SpansTask(Task):
    """Any number of labeled parts of each text.

    An item is a document. Votes, soft labels and probabilities are on tokens: P(tag) is
    (n_tokens, n_tags). A network returns logits (sections, tokens, tags).

    >>> SpansTask(SpanLabels(("PER",))).tags.names
    ('O', 'B-PER', 'I-PER')
    """

    kind = "spans"
    label_type = SpanLabels
    votes_type = TokenVotes
    output = "tag"
    learns_gold = False
    logits_axes = "items, tokens"
    labels: SpanLabels

    @classmethod
    def stored(cls, names: Any, ordered: bool) -> Self:
        """Return the task whose labels have these names; an order has no meaning for spans."""
        return cls(SpanLabels(tuple(names)))

    @property
    def tags(self) -> LabelSpace:
        """The classes of a token: `O`, and `B-X` and `I-X` for each label X."""
        return self.labels.tags

    @property
    def classes(self) -> LabelSpace:
        """The tags."""
        return self.tags

    @property
    def n_classes(self) -> int:
        """The number of tags."""
        return len(self.tags)

    @property
    def n_outputs(self) -> int:
        """The number of tags."""
        return len(self.tags)

    # Items

    def items(self, X: Any) -> Any:
        """Return texts as documents, which are tokenized once."""
        if isinstance(X, Document):
            places = list(zip(X.starts.tolist(), X.ends.tolist(), strict=True))
            return Documents.from_offsets([X.text], [places], [X.id])
        is_text = isinstance(X, str)
        if is_text or (isinstance(X, Sequence) and all(isinstance(text, str) for text in X)):
            return Documents.from_texts([X] if is_text else X)
        return X

    def one_input(self, x: Any) -> Inputs:
        """Return one document, or one text."""
        return self.inputs(x)

    def inputs(self, X: Any, name: str = "X", votes: Any = None) -> Inputs:
        """Return documents as inputs, which may be given as texts."""
        X = self.items(X)
        found = as_inputs(X) if isinstance(X, (Documents, TokenInputs)) else X
        if not isinstance(found, TokenInputs):
            raise FeatureError(
                f"A tagger reads Documents, or texts; {name} is {type(X).__name__}. Make them with "
                "Documents.from_texts(texts), or wiesel.training.TokenInputs(documents, features) "
                "with features of your own."
            )
        return found

    def n_rows(self, items: Any) -> int:
        """Return the number of tokens of inputs or votes."""
        return int(items.n_tokens)

    def check_items(self, given: Any) -> None:
        """Refuse documents other than those of the votes."""
        if not isinstance(given.inputs, TokenInputs):
            self.inputs(given.inputs)
        documents = given.inputs.documents
        others = documents if given.votes is None else given.votes.documents
        same = np.array_equal(documents.pointers, others.pointers)
        if not (documents is others or (same and documents.texts == others.texts)):
            raise FeatureError(
                "X and votes must be of the same documents in the same order, but X is "
                f"{documents!r} and the votes are on {others!r}."
            )
        if not documents.n_tokens:
            raise FeatureError("There are no items: X is empty.")

    # Votes

    def matrices(self, votes: TokenVotes) -> Sequence[VoteMatrix]:
        """Return the votes on tokens, and those on pairs of them."""
        return (votes.votes,) if votes.links is None else (votes.votes, votes.links)

    def used(self, inputs: Inputs, votes: TokenVotes) -> npt.NDArray[np.bool_]:
        """Return that all sections are trained on: silence says that there is no span."""
        votes.check_any()
        return np.ones(len(inputs), dtype=bool)

    def copies(self, votes: TokenVotes) -> dict[str, str]:
        """Return each voter that is a copy, and the voter it copies."""
        original = find_copies(votes.votes)
        names = votes.voters
        return {names[k]: names[first] for k, first in enumerate(original) if k != first}

    def without_copies(self, votes: TokenVotes, copies: Mapping[str, str]) -> TokenVotes:
        """Return the votes with every copy merged into the voter it copies."""
        return replace(votes, votes=merge_copies(votes.votes, originals_of(votes.voters, copies)))

    def joined_votes(self, parts: Sequence[TokenVotes]) -> TokenVotes:
        """Refuse: gold spans are not learned beside votes."""
        raise ParameterError("Votes on several lists of documents are not joined.")

    def sample_items(self) -> Inputs:
        """Return a text without tokens and two with some."""
        return self.inputs(["", "Ada met Bob 3 times.", "so"])

    def sample_votes(self, n_items: int, voters: Sequence[str]) -> TokenVotes:
        """Return votes on the sample items; all voters vote for all tags in turn."""
        documents: Documents = self.sample_items().documents  # type: ignore[attr-defined]
        cast = np.arange(documents.n_tokens * len(voters)).reshape(-1, len(voters))
        matrix = VoteMatrix.from_dense(cast % self.n_classes, self.tags, voters)
        return TokenVotes(documents, matrix)

    # Gold labels and the class balance

    def gold_labels(self, gold: Any) -> npt.NDArray[np.int64]:
        """Refuse: gold spans are not learned beside votes."""
        raise ParameterError(
            "gold= is for labels of items. Gold spans select the epoch, validation=(documents, "
            "spans), or train a tagger by themselves: Supervised(net).fit(documents, spans).",
            option="gold",
        )

    def held_out(self, inputs: Inputs, gold: Any) -> "SpanValidation":
        """Return documents with gold spans: a list of (start, end, label) for each."""
        found = self.inputs(inputs)
        documents = found.documents  # type: ignore[attr-defined]
        tags = documents.tags_of(gold, self.labels)
        spans = [[Span(*span) for span in own] for own in gold]
        return SpanValidation(found, tags, self.n_classes, documents, spans, self.labels)

    def class_balance(
        self, option: Any, votes: TokenVotes | None, validation: Validation | None
    ) -> Array:
        """Return equal shares of the tags: their real ones depend on the tags around."""
        if option is not None and not isinstance(option, str):
            raise ParameterError(
                "class_balance is for labels of items; HiddenMarkov learns how tags follow each "
                "other. Leave it out.",
                option="class_balance",
            )
        return np.full(self.n_classes, 1 / self.n_classes)

    def member_balance(self, option: Any, votes: TokenVotes, validation: Validation | None) -> Any:
        """Return the committee's option."""
        self.class_balance(option, votes, validation)
        return None

    # Label models

    def member_label_models(self) -> dict[str, LabelModel]:
        """Return the label models of a committee's members, by name."""
        return {"hidden_markov": HiddenMarkov(), "majority_vote": MajorityVote()}

    def fit_label_model(
        self, label_model: LabelModel, plan: Any, balance: Array | None, fit: FitLabelModel
    ) -> tuple[LabelModel, Array]:
        """Return the fitted label model, and P(tag) of every token.

        A label model of independent items labels token by token; tokens without votes are outside.
        """
        self.check_does(label_model)
        votes: Any = plan.votes
        if reads_sequences(label_model):
            fitted = copy.deepcopy(label_model)
            return fitted, self._with_known(fitted.fit_predict_proba(votes), votes)
        fitted, proba = fit(label_model, replace(plan, votes=votes.votes), None)
        silent = outside_where_silent(proba, votes.votes.covered)
        return fitted, self._with_known(silent, votes)

    def _with_known(self, proba: Array, votes: TokenVotes) -> Array:
        """Return P(tag) in which the tags that people gave are certain."""
        if votes.known is None:
            return proba
        rows = np.flatnonzero(votes.known >= 0)
        proba = np.array(proba)
        proba[rows] = np.eye(self.n_classes)[votes.known[rows]]
        return proba

    def checked_proba(
        self, proba: Any, source: str, n_items: int | None = None, *, zeros: bool = False
    ) -> Array:
        """Return P(tag) of tokens, checked."""
        return checked_proba(proba, self.tags, source, n_items, zeros=zeros)

    def hardened(self, soft_labels: Array) -> Array:
        """Return the most probable tag of every token as its soft label."""
        return np.eye(self.n_classes)[soft_labels.argmax(axis=1)]

    def soft_labels(self, fitted: LabelModel, votes: TokenVotes, X: Any) -> Array:
        """Return P(tag) of every token from the votes."""
        return token_soft_labels(fitted, votes)

    def label_model_effects(self, fitted: LabelModel, one: Any, votes: TokenVotes) -> None:
        """Return nothing: a text is explained by who voted for each of its spans."""

    # Networks

    def adapted(self, network: nn.Module) -> nn.Module:
        """Return logits of tokens: (n_tokens, n_tags), without the padding."""
        return network if isinstance(network, TokenLogits) else TokenLogits(network, self.n_classes)

    def original(self, adapted: nn.Module) -> nn.Module:
        """Return the network with padded logits."""
        return adapted.tagger if isinstance(adapted, TokenLogits) else adapted

    def logits_shape(self, batch: Any, n_items: int) -> tuple[int, ...]:
        """Return the shape of padded logits: (sections, tokens, tags)."""
        return (*batch["mask"].shape, self.n_classes)

    def predicting(self, network: nn.Module) -> nn.Module:
        """Return logits of tokens, as `proba` takes them."""
        return self.adapted(network)

    def objective(
        self, network: nn.Module, targets: Array, votes: Any, loss: str, balance: Array | None
    ) -> Objective:
        """Return the cross-entropy to the soft labels of tokens."""
        if loss != "ce":
            raise ParameterError(f"The loss {loss!r} is for labels of items; leave it out.")
        return SoftTokenObjective(self.adapted(network), targets)

    def gold_objective(
        self, network: nn.Module, gold: "SpanValidation", unsure: float, left_out: Any = None
    ) -> Objective:
        """Return the cross-entropy to gold tags; documents that are left out have no targets."""
        targets = (1 - unsure) * np.eye(self.n_classes)[gold.gold] + unsure / self.n_classes
        targets[[] if left_out is None else left_out] = 0
        return SoftTokenObjective(self.adapted(network), targets)

    def average(
        self, networks: Sequence[nn.Module], weights: Any = None, offsets: Any = None
    ) -> nn.Module:
        """Return the (weighted) mean of the networks' probabilities."""
        return Ensemble(networks, weights).eval()

    def collapsed(self, history: History) -> npt.NDArray[np.bool_]:
        """Whether the kept weights find no span although the votes have some."""
        kept = history.kept if len(history) else {}
        found, wanted = kept.get("spans_found"), kept.get("spans_wanted")
        return np.array(found == 0 and bool(wanted))

    def able(self, histories: Sequence[History]) -> Array:
        """Return 1 for every member: those that have collapsed are left out before."""
        return np.ones(len(histories))

    def collapse_message(self, history: History) -> str:
        """Return what a collapsed network does."""
        return "The tagger finds no span in the training texts although the votes have some."

    def judged(
        self, probas: Array, validation: Validation
    ) -> Iterator[tuple[tuple[int, ...], Array, Validation]]:
        """Yield the one decision of a text, the members' probabilities, and its gold."""
        yield (), probas, validation

    # Predictions

    def calibration(self, logits: Tensor, validation: Validation) -> Array:
        """Refuse: tags are chosen as a sequence."""
        raise ParameterError("calibrated=True is for tasks with several labels: leave it out.")

    def proba(self, logits: Tensor, calibration: Array | None) -> Array:
        """Return P(tag): (n_tokens, n_tags)."""
        return proba_of(logits) if len(logits) else np.empty((0, self.n_classes))

    def with_votes(self, proba: Array, soft_labels: Array) -> Array:
        """Return P(tag) from a tagger and from the votes on the same tokens.

        It is the geometric mean, in which neither is quite certain: where they differ, the less
        certain one gives way. `O` counts half, because both miss more spans than they invent.
        """
        doubted = np.maximum(proba, _DOUBT) * np.maximum(soft_labels, _DOUBT)
        found: Array = np.sqrt(doubted)
        found[:, 0] *= _OUTSIDE
        return found / found.sum(axis=1, keepdims=True)

    def decide(self, proba: Array, threshold: Any, items: Any = None) -> list[list[Span]]:
        """Return the spans of every document, with their confidence."""
        documents = items.documents if isinstance(items, TokenInputs) else items
        return spans_of_proba(proba, documents, self.labels)

    def one(self, model: Any, label: str) -> Any:
        """Refuse: a tagger is no classifier."""
        raise ParameterError("The model finds spans of all labels at once: use the model itself.")

    def explanation(self, model: Any, one: Any, votes: TokenVotes, effects: Any) -> MarkedText:
        """Return one document with its predicted spans, and who voted for them."""
        return explain_spans(votes, model.predict(one))[0]

    def mean_effects(self, parts: Any, weights: Any, votes: Any, copies: Any) -> None:
        """Return nothing: a text is explained by who voted for each of its spans."""

    def check_threshold(self, threshold: Any) -> None:
        """Refuse a stored threshold."""
        if threshold is not None:
            raise SavedModelError("The saved model has a threshold, which has no meaning here.")

    def check_calibration(self, calibration: Any) -> None:
        """Refuse a stored calibration."""
        if calibration is not None:
            raise SavedModelError("The saved model has a calibration, which has no meaning here.")

    def check_balance(self, balance: Any) -> Array:
        """Return equal shares: no other is stored."""
        return self.class_balance(None, None, None)

    def check_copies(self, copies: Any, voters: Sequence[str]) -> dict[str, str]:
        """Return the stored copies among the voters."""
        return checked_copies(copies, voters)

    def check_weights(self, weights: Mapping[str, Any]) -> dict[str, float]:
        """Return the stored weights of a committee's members: one number each."""
        return checked_weights(weights)


@dataclass(frozen=True)
class SpanValidation(Validation):
    """Held-out documents with gold spans; the score of an epoch is its F1 of exact spans."""

    documents: Documents
    spans: list[list[Span]]
    labels: SpanLabels

    @property
    def n_gold(self) -> int:
        """The number of gold spans."""
        return sum(map(len, self.spans))

    @property
    def can_choose(self) -> bool:
        """Whether the documents can tell epochs apart: they have enough gold spans."""
        return self.n_gold >= ENOUGH_GOLD

    @property
    def metric(self) -> str:
        """The metric of `score`."""
        return "span_f1"

    def proba_by(self, module: nn.Module) -> Array:
        """Return P(tag) of every token by a tagger."""
        of_tokens = (
            module if isinstance(module, TokenLogits) else TokenLogits(module, self.n_classes)
        )
        return proba_of(predict_logits(of_tokens, self.inputs))

    def score(self, proba: Array) -> float:
        """Return the F1 of exact spans."""
        found = spans_of_proba(proba, self.documents, self.labels)
        f1 = evaluate_spans(self.spans, found, self.documents, self.labels).exact["all"].f1
        return 0.0 if math.isnan(f1) else f1

    def best_threshold(self, proba: Array) -> None:
        """Return None: the most probable legal tags are predicted."""


class TokenLogits(nn.Module):
    """Wraps a tagger to return one row of logits for each token, without the padding.

    The tagger gets a dict of tensors (items, tokens, ...) and `mask`, as keyword arguments if its
    `forward` has parameters with these names. It returns logits (items, tokens, tags).
    """

    def __init__(self, tagger: nn.Module, n_tags: int) -> None:
        super().__init__()
        self.tagger = tagger
        self.n_tags = n_tags

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return (n_tokens, n_tags), in the order of the documents."""
        mask = inputs["mask"]
        longest = int(mask.sum(dim=1).max()) if len(mask) else 0
        mask = mask[:, :longest]
        # A slice of a large batch is padded to the longest item of that batch.
        seen = {name: value[:, :longest] for name, value in inputs.items() if name != "positions"}
        logits = logits_of(self.tagger, seen)
        if logits.shape != (*mask.shape, self.n_tags):
            raise FeatureError(
                "A tagger returns logits (items, tokens, tags), here "
                f"{(*mask.shape, self.n_tags)}; got the shape {tuple(logits.shape)}."
            )
        return logits[mask]


class SoftTokenObjective(Objective):
    """One tagger, and the soft labels of all tokens."""

    targets: Tensor

    def __init__(self, end_model: nn.Module, targets: Array) -> None:
        super().__init__()
        self.end_model = end_model
        self.register_buffer("targets", torch.from_numpy(targets).float(), persistent=False)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the cross-entropy to the soft labels of the tokens of a batch."""
        logits = self.end_model(batch.inputs)
        return {"end_model": soft_cross_entropy(logits, self.targets[tokens_of(batch)])}

    @torch.no_grad()
    def diagnose(self, data: TrainingData) -> Record:
        """Return how often tags agree with the soft labels, and how many tags begin a span."""
        batch = data.diagnosed(self.targets.device)
        predicted = self.end_model(batch.inputs).argmax(dim=1)
        wanted = self.targets[tokens_of(batch)].argmax(dim=1)
        return {
            "agreement": (predicted == wanted).float().mean().item(),
            "spans_found": int((predicted % 2 == 1).sum()),
            "spans_wanted": int((wanted % 2 == 1).sum()),
        }


def tokens_of(batch: Batch) -> Tensor:
    """The tokens of a batch, in the order of the tagger's logits."""
    inputs: dict[str, Tensor] = batch.inputs  # type: ignore[assignment]
    return inputs["positions"][inputs["mask"]]
