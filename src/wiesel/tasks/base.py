"""The interface of every kind of task, and what all tasks share: merging copies of voters."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from wiesel.errors import Advice, Argument, FeatureError, ParameterError, SavedModelError, suggest
from wiesel.label_models import LabelModel
from wiesel.label_models.base import fitted_label_model, label_model_arrays, label_model_values
from wiesel.training import History, Inputs, Objective, Validation, as_inputs
from wiesel.training.inputs import as_batch
from wiesel.votes import VoteMatrix, require_votes

__all__ = [
    "NEEDS_VALIDATION",
    "Array",
    "Combined",
    "FitLabelModel",
    "Task",
    "checked_copies",
    "checked_number",
    "checked_weights",
    "find_copies",
    "merge_copies",
    "originals_of",
    "stored_task",
    "task_of",
    "task_of_votes",
]

NEEDS_VALIDATION = (
    Argument("class_balance", "validation"),
    " needs gold labels: give ",
    Argument("validation"),
    Advice(" to fit, inputs and gold"),
    ".",
)
"""What is said if the class balance should come from items that are not there."""

Array = npt.NDArray[np.float64]

FitLabelModel = Callable[[Any, Any, "Array | None"], tuple[LabelModel, Array]]
"""Fits a copy of a label model on the one `VoteMatrix` of a plan, given P(class) if it is known.
Returns it and its soft labels."""
_ARRAYS = "label_model.safetensors"
_KINDS: "list[type[Task]]" = []
_MOST_VOTERS = 3_000
"""The most voters for which all pairs are compared."""
_MOST_ITEMS = 2_000
"""The most items on which voters are compared."""
_ALIKE = 0.9
"""Copies share at least this part of their votes for each class."""
_DOUBT = 2.0
"""Pseudo-votes of each class that count as different, because few votes prove nothing."""


class Combined(NamedTuple):
    """How the networks of a committee are averaged without gold."""

    weights: Array
    offsets: Array
    """What is added to the logits of the average: (n_classes,)."""
    agreement: float
    """The mean share of items on which two of the networks predict the same class."""


class Task(ABC):
    """A kind of task: what an item is asked, and what that means for votes, gold and networks.

    Methods, training, storage and reports know this interface only. A method says which kinds it
    can do (`EndToEndModel.tasks`).
    """

    kind: ClassVar[str]
    """The name of the kind in saved models and messages."""
    label_type: ClassVar[type]
    """The type of its labels, by which `task_of` finds the kind."""
    votes_type: ClassVar[type] = VoteMatrix
    """The type of the votes on its items."""
    output: ClassVar[str]
    """What a network returns a logit for: a class, a label."""
    learns_gold: ClassVar[bool] = True
    """Whether networks that have learned votes can learn gold labels as well."""
    logits_axes: ClassVar[str] = "items"
    """What the dimensions of logits are, before that of the outputs."""
    advice: ClassVar[str] = "Committee, TwoStage and WeaSEL can do them."
    """What to use instead of a method that cannot do the task."""
    refused_layers: ClassVar[tuple[type[nn.Module], ...]] = ()
    """The layers with which a network must not end, because they return probabilities."""

    compares_members: ClassVar[bool] = False
    """Whether `combined` weighs the members of a committee without gold."""

    def __init__(self, labels: Any) -> None:
        self.labels = labels

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "label_type" in vars(cls):
            # The last comes first: the labels of a kind may be a refinement of another's.
            _KINDS.insert(0, cls)

    @classmethod
    def stored(cls, names: Any, ordered: bool) -> Self:
        """Return the task whose labels have these names."""
        return cls(cls.label_type(*names, ordered=ordered))

    @property
    def classes(self) -> Any:
        """What a label model decides between: the classes, or the tags of tokens."""
        return self.labels

    @property
    @abstractmethod
    def n_classes(self) -> int:
        """How many classes a network's decision is between."""

    @property
    def n_outputs(self) -> int:
        """How many logits a network returns for a decision, or for an item."""
        return len(self.labels)

    # Items

    def items(self, X: Any) -> Any:
        """Return the user's items in a form that is made from them once."""
        return X

    def one_input(self, x: Any) -> Inputs:
        """Return one item, such as `X[17]`, as inputs of length one."""
        return as_inputs(as_batch(x))

    def inputs(self, X: Any, name: str = "X", votes: Any = None) -> Inputs:
        """Return what a network reads, from the user's items, in the order of votes."""
        return as_inputs(X, name, votes)

    def n_rows(self, items: Any) -> int:
        """Return how many rows of probabilities inputs or votes have."""
        return len(items) if hasattr(items, "take") else int(items.n_items)

    def check_items(self, given: Any) -> None:
        """Refuse inputs, votes and encoder features with different numbers of items."""
        lengths = {"X": len(given.inputs)}
        if given.votes is not None:
            lengths["votes"] = given.votes.n_items
        if given.features is not None:
            lengths["encoder_X"] = len(given.features)
        if len(set(lengths.values())) > 1:
            described = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            raise FeatureError(
                f"All inputs must have the same items in the same order, but {described}."
            )
        if not lengths["X"]:
            raise FeatureError("There are no items: X is empty.")

    # Votes

    @abstractmethod
    def matrices(self, votes: Any) -> Sequence[VoteMatrix]:
        """Return all votes as vote matrices."""

    @abstractmethod
    def used(self, inputs: Inputs, votes: Any) -> npt.NDArray[np.bool_]:
        """Return whether an item is trained on: (n_items,)."""

    @abstractmethod
    def copies(self, votes: Any) -> Mapping[str, Any]:
        """Return the voters that are copies, and whom they copy."""

    @abstractmethod
    def without_copies(self, votes: Any, copies: Mapping[str, Any]) -> Any:
        """Return the votes in which a voter and its copies count once."""

    @abstractmethod
    def joined_votes(self, parts: Sequence[Any]) -> Any:
        """Return the votes on the items of all parts, one after the other."""

    @abstractmethod
    def sample_votes(self, n_items: int, voters: Sequence[str]) -> Any:
        """Return votes on which a loaded model can be tried; nobody votes on the first item."""

    def sample_items(self) -> Any:
        """Return items on which any loaded model can be tried; None if they depend on it."""
        return None

    # Gold labels and the class balance

    @abstractmethod
    def gold_labels(self, gold: Any) -> npt.NDArray[np.int64]:
        """Return gold labels in the user's form as numbers, -1 where one is unknown.

        They are (n_items,), or (n_items, n_labels) with several labels.
        """

    @abstractmethod
    def held_out(self, inputs: Inputs, gold: Any) -> Validation:
        """Return items with gold labels in the user's form, checked."""

    @abstractmethod
    def class_balance(self, option: Any, votes: Any, validation: Validation | None) -> Array:
        """Return P(class) as the option `class_balance` of a method says."""

    @abstractmethod
    def member_balance(self, option: Any, votes: Any, validation: Validation | None) -> Any:
        """Return the option `class_balance` of a committee's members, given the committee's."""

    # Label models

    def check_does(self, model: Any) -> None:
        """Refuse a label model or a method that cannot do this kind of task."""
        if self.kind not in model.tasks:
            raise ParameterError(
                f"{type(model).__name__} does tasks with {' or '.join(model.tasks)} for each item; "
                f"these votes are for {self.kind}. {self.advice}"
            )

    def member_label_models(self) -> dict[str, LabelModel] | None:
        """Return the label models of a committee's members; None leaves them to the committee."""
        return None

    @abstractmethod
    def fit_label_model(
        self, label_model: LabelModel, plan: Any, balance: Array | None, fit: FitLabelModel
    ) -> tuple[Any, Array]:
        """Return the fitted label model, and its soft labels for all items of the plan."""

    @abstractmethod
    def checked_proba(
        self, proba: Any, source: str, n_items: int | None = None, *, zeros: bool = False
    ) -> Array:
        """Return probabilities, or raise an error that names their source.

        `zeros` allows rows of zeros, which say nothing about their item.
        """

    @abstractmethod
    def hardened(self, soft_labels: Array) -> Array:
        """Return the most probable answers as soft labels."""

    @abstractmethod
    def soft_labels(self, fitted: Any, votes: Any, X: Any) -> Array:
        """Return the soft labels of what `fit_label_model` returned; some label models use X."""

    @abstractmethod
    def label_model_effects(self, fitted: Any, one: Any, votes: Any) -> Any:
        """Return what each vote on one item adds to the soft label of a label model."""

    def label_model_contents(self, fitted: Any) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Return options and learned values of a label model, and the file of its arrays."""
        return label_model_values(fitted), {_ARRAYS: label_model_arrays(fitted)}

    def restored_label_model(
        self, values: dict[str, Any], files: Mapping[str, bytes], voters: tuple[str, ...]
    ) -> Any:
        """Return the fitted label model that was stored."""
        fitted = fitted_label_model(values, files[_ARRAYS])
        if (fitted.labels_, fitted.voters_) != (self.classes, voters):
            raise SavedModelError("The saved label model belongs to other classes or other voters.")
        return fitted

    # Networks

    def adapted(self, network: nn.Module) -> nn.Module:
        """Return the network as it is trained: logits (items, classes, ...)."""
        return network

    def original(self, adapted: nn.Module) -> nn.Module:
        """Return the network that `adapted` took."""
        return adapted

    def predicting(self, network: nn.Module) -> nn.Module:
        """Return the network whose logits `proba` takes, from the trained one."""
        return network

    def logits_shape(self, batch: Any, n_items: int) -> tuple[int, ...]:
        """Return the shape of the logits that a network has to return for a batch."""
        return n_items, self.n_outputs

    @abstractmethod
    def objective(
        self, network: nn.Module, targets: Array, votes: Any, loss: str, balance: Array | None
    ) -> Objective:
        """Return what trains a network on soft labels."""

    @abstractmethod
    def gold_objective(
        self, network: nn.Module, gold: Any, unsure: float, left_out: Any = None
    ) -> Objective:
        """Return what trains a network on gold labels, but for the items `left_out`.

        `unsure` is the share of a label that is spread over the classes.
        """

    @abstractmethod
    def average(
        self, networks: Sequence[nn.Module], weights: Any = None, offsets: Any = None
    ) -> nn.Module:
        """Return the network that averages the probabilities of others.

        `offsets` are what `combined` returned.
        """

    def combined(
        self, networks: Sequence[nn.Module], weights: Array, given: Any, balance: Any
    ) -> "Combined | None":
        """Return how to average networks without gold, from their predictions; None as given.

        `given` are the items that were trained on, `balance` is the option of the networks.
        """
        return None

    @abstractmethod
    def collapsed(self, history: History) -> npt.NDArray[np.bool_]:
        """Whether the kept weights predict the same for all items although the votes do not.

        One answer, or one for each label.
        """

    @abstractmethod
    def able(self, histories: Sequence[History]) -> Array:
        """Return 1 where a member of a committee may have weight: (members,) or more."""

    @abstractmethod
    def collapse_message(self, history: History) -> str:
        """Return what a collapsed network does."""

    @abstractmethod
    def judged(
        self, probas: Array, validation: Any
    ) -> Iterator[tuple[tuple[int, ...], Array, Validation]]:
        """Yield each decision that gold can judge.

        It is its place among a member's weights, the members' probabilities (members, n_items,
        n_classes), and the gold.
        """

    # Predictions

    @abstractmethod
    def calibration(self, logits: Tensor, validation: Any) -> Array:
        """Return the scale and offset of each logit, fitted on gold."""

    @abstractmethod
    def proba(self, logits: Tensor, calibration: Array | None) -> Array:
        """Return the probabilities of a network's logits."""

    @property
    def default_threshold(self) -> Any:
        """The threshold without gold labels; None predicts the most probable class."""
        return None

    @abstractmethod
    def decide(self, proba: Array, threshold: Any, items: Any = None) -> Any:
        """Return the predictions in the user's form."""

    @abstractmethod
    def one(self, model: Any, label: str) -> Any:
        """Return the binary classifier of one of several labels."""

    @abstractmethod
    def explanation(self, model: Any, one: Any, votes: Any, effects: Any) -> Any:
        """Return why one item got its labels, from the effects of its votes."""

    @abstractmethod
    def mean_effects(
        self, parts: Mapping[str, Any], weights: Mapping[str, Any], votes: Any, copies: Any
    ) -> Any:
        """Return the effects of votes on the members' weighted mean; copies share theirs."""

    @abstractmethod
    def check_threshold(self, threshold: Any) -> Any:
        """Return a stored threshold, checked."""

    @abstractmethod
    def check_calibration(self, calibration: Any) -> Array | None:
        """Return a stored scale and offset of each logit, checked; None leaves them as trained."""

    def check_offsets(self, offsets: Any) -> Array | None:
        """Return the stored offsets of a committee's logits, checked; None is none."""
        if offsets is None:
            return None
        array = np.asarray(offsets, dtype=np.float64)
        if array.shape != (self.n_classes,) or not np.isfinite(array).all():
            raise SavedModelError("The saved offsets do not fit the classes.")
        return array

    @abstractmethod
    def check_balance(self, balance: Any) -> Array:
        """Return a stored class balance, checked."""

    @abstractmethod
    def check_copies(self, copies: Any, voters: Sequence[str]) -> dict[str, Any]:
        """Return the stored copies of a committee, checked."""

    @abstractmethod
    def check_weights(self, weights: Mapping[str, Any]) -> dict[str, Any]:
        """Return the stored weights of a committee's members, checked."""


def task_of(labels: Any) -> Task:
    """Return the task of these labels.

    >>> from wiesel.multilabel import MultiLabelSpace
    >>> task_of(MultiLabelSpace("sports", "politics")).kind
    'several labels'
    """
    return next(kind for kind in _KINDS if isinstance(labels, kind.label_type))(labels)


def task_of_votes(votes: Any) -> Task:
    """Return the task that votes are for; refuse what are no votes."""
    if not isinstance(votes, tuple(kind.votes_type for kind in _KINDS)):
        require_votes(votes)
    return task_of(votes.labels)


def stored_task(kind: Any, names: Any, *, ordered: bool = False) -> Task:
    """Return the task of a saved model, from its kind and the names of its labels."""
    kinds = {each.kind: each for each in reversed(_KINDS)}
    if kind not in kinds:
        raise SavedModelError(f"There is no kind of task {kind!r:.60}. {suggest(kind, kinds)}")
    return kinds[kind].stored(names, ordered)


def originals_of(voters: Sequence[str], copies: Mapping[str, str]) -> npt.NDArray[np.int64]:
    """Return the position of the voter that each voter copies, or its own."""
    position = {name: index for index, name in enumerate(voters)}
    return np.array([position[copies.get(name, name)] for name in voters], dtype=np.int64)


def checked_copies(copies: Any, voters: Sequence[str]) -> dict[str, str]:
    """Return the stored copies among the voters."""
    if not {*copies, *copies.values()} <= {*voters}:
        raise SavedModelError("The copies of the saved committee are of other voters.")
    return dict(copies)


def checked_weights(weights: Mapping[str, Any]) -> dict[str, float]:
    """Return the stored weights of a committee's members: one number each."""
    found = {name: checked_number(weight) for name, weight in weights.items()}
    if not all(0 <= weight <= 1 for weight in found.values()):
        raise SavedModelError("The weights of the saved committee are not shares.")
    return found


def checked_number(value: Any) -> float:
    """Return a stored number."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not np.isfinite(value):
        raise SavedModelError(f"The saved threshold is no number: {value!r:.60}.")
    return float(value)


def find_copies(votes: VoteMatrix) -> npt.NDArray[np.int64]:
    """Return for every voter the first voter that it copies, or itself if it is no copy.

    Copies agree on each class that either votes for; two accurate voters need not.

    >>> copied = VoteMatrix.from_dense([[0, 1, 1]] * 500 + [[1, 0, 0]] * 400, ["no", "yes"])
    >>> find_copies(copied)
    array([0, 1, 1])
    """
    original = np.arange(votes.n_voters)
    if votes.n_voters > _MOST_VOTERS:
        return original
    alike = _alikeness(votes) >= _ALIKE
    for voter in range(1, votes.n_voters):
        earlier = np.flatnonzero(alike[voter, :voter] & (original[:voter] == np.arange(voter)))
        if len(earlier):
            original[voter] = earlier[0]
    return original


def merge_copies(votes: VoteMatrix, original: npt.NDArray[np.int64]) -> VoteMatrix:
    """Return the votes with copies merged into one voter; its own vote has priority.

    >>> copied = VoteMatrix.from_dense([[0, 1, -1], [1, -1, 0]], ["no", "yes"], ["a", "b", "c"])
    >>> merged = merge_copies(copied, np.array([0, 1, 1]))
    >>> merged.voters, merged.dense().tolist()
    (('a', 'b'), [[0, 1], [1, 0]])
    """
    kept, position = np.unique(original, return_inverse=True)
    if len(kept) == votes.n_voters:
        return votes
    cell = votes.item_index * len(kept) + position[votes.voter_index]
    cells, first = np.unique(cell, return_index=True)
    return VoteMatrix(
        np.searchsorted(cells, np.arange(votes.n_items + 1) * len(kept)),
        (cells % len(kept)).astype(votes.voter_index.dtype),
        votes.class_index[first],
        votes.labels,
        tuple(votes.voters[voter] for voter in kept),
        votes.ids,
        None if votes.distribution is None else votes.distribution[first],
    )


def _alikeness(votes: VoteMatrix) -> npt.NDArray[np.float64]:
    """The share of equal votes of any two voters, as the minimum over classes."""
    rows = np.random.default_rng(0).permutation(np.flatnonzero(votes.covered))[:_MOST_ITEMS]
    one_hot = votes.one_hot()[np.sort(rows)]
    smallest = np.ones((votes.n_voters, votes.n_voters))
    for c in range(votes.n_classes):
        own = one_hot[:, c :: votes.n_classes]
        both = (own.T @ own).toarray().astype(np.float64)
        most = np.maximum.outer(both.diagonal(), both.diagonal())
        # A class that neither votes for carries no information.
        share = np.where(most > 0, both / (most + _DOUBT), 1.0)
        np.minimum(smallest, share, out=smallest)
    return smallest
