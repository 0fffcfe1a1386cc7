"""The contract of label models."""

import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache, reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from wiesel.catalog import METHODS, load_model
from wiesel.datasets.synthetic import make_votes
from wiesel.errors import NotFittedError, ParameterError, VoteError, WieselError, WieselWarning
from wiesel.label_models import LabelModel, MajorityVote
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.testing.modules import ContractError, require, require_equal, require_error, small_votes
from wiesel.votes import Add, Statistics, VoteMatrix, add_statistics

__all__ = ["check_label_model"]


def check_label_model(model: LabelModel) -> tuple[str, ...]:
    """Raise `ContractError` unless a label model satisfies the contract; return the checks.

    Pass a model with the options to check, fitted or not. It is copied for every check and not
    changed. Options that name voters cannot be checked, because the checks create their own voters.

    >>> from wiesel import MajorityVote
    >>> checked = check_label_model(MajorityVote(hard=True))
    >>> len(checked) > 20
    True
    """
    # A model may warn about a fallback, for example with a single voter.
    with warnings.catch_warnings(action="ignore", category=WieselWarning):
        _fitted.cache_clear()
        _fitted_to_balance.cache_clear()
        for check in _CHECKS:
            _run(check, model)
    return tuple(_sentence(check) for check in _CHECKS)


class _Parts:
    """A vote matrix in parts that only support sums, as on several machines."""

    def __init__(self, votes: VoteMatrix, *cuts: int) -> None:
        self._parts = [votes[a:b] for a, b in pairwise((0, *cuts, votes.n_items))]
        self.labels, self.voters, self.n_items = votes.labels, votes.voters, votes.n_items

    def sum(
        self, statistic: Callable[[VoteMatrix], Statistics], add: Add = add_statistics
    ) -> Statistics:
        """Return the sum of the statistic over the parts."""
        return reduce(add, map(statistic, self._parts))

    def parts(self) -> Iterator[VoteMatrix]:
        """Yield one part after another."""
        return iter(self._parts)


def _fresh(model: LabelModel) -> LabelModel:
    copy: LabelModel = clone(model)
    return copy


@lru_cache(maxsize=1)
def _fitted(model: LabelModel) -> LabelModel:
    """The model, fitted on `small_votes()` once for all checks that do not modify it."""
    return _fresh(model).fit(small_votes())


_BALANCE = (0.6, 0.3, 0.1)


@lru_cache(maxsize=1)
def _fitted_to_balance(model: LabelModel) -> LabelModel:
    """The model, fitted on `small_votes()` with a class balance, shared in the same way."""
    return _fresh(model).fit(small_votes(), list(_BALANCE))


def _proba(model: LabelModel, votes: VoteMatrix, balance: Any = None) -> npt.NDArray[np.float64]:
    return _fresh(model).fit(votes, balance).predict_proba(votes)


def _require_close(first: Any, second: Any, message: str, tolerance: float = 1e-6) -> None:
    first, second = np.asarray(first), np.asarray(second)
    require(first.shape == second.shape, f"{message}: shapes {first.shape} and {second.shape}")
    apart = float(np.abs(first - second).max(initial=0))
    require(apart <= tolerance, f"{message}: {apart:.2g} apart")


def _require_probabilities(proba: npt.NDArray[np.float64], shape: tuple[int, int]) -> None:
    require(proba.shape == shape, f"the shape is {proba.shape}; expected {shape}")
    require(np.isfinite(proba).all(), "probabilities must be finite")
    require((proba >= 0).all(), f"negative: {proba.min()}")
    require(np.allclose(proba.sum(axis=1), 1, atol=1e-9), "rows must sum to 1")


def _fit_returns_self_and_changes_no_option(model: LabelModel) -> None:
    fresh = _fresh(model)
    before = {name: repr(value) for name, value in fresh.get_params(deep=False).items()}
    require(fresh.fit(small_votes()) is fresh, "fit must return self")
    after = {name: repr(value) for name, value in fresh.get_params(deep=False).items()}
    require(before == after, f"options changed: {before} became {after}")


def _the_users_objects_are_untouched(model: LabelModel) -> None:
    votes, copy, balance = small_votes(), small_votes(), np.array([0.5, 0.3, 0.2])
    _fresh(model).fit(votes, balance).predict_proba(votes)
    require(votes.equals(copy), "the votes were changed")
    require_equal(balance, [0.5, 0.3, 0.2], "the class balance was changed")


def _fitting_again_changes_nothing(model: LabelModel) -> None:
    votes, fresh = small_votes(), _fresh(model)
    once = _fitted(model).predict_proba(votes)
    fresh.fit(small_votes(n_items=60, n_voters=4, seed=1))
    require_equal(once, fresh.fit(votes).predict_proba(votes), "a second fit differs from a first")
    require_equal(once, fresh.fit_predict_proba(votes), "fit_predict_proba or a third fit differs")


def _an_unfitted_model_says_so(model: LabelModel) -> None:
    fresh = _fresh(model)
    require_error(NotFittedError, "fit", doing=lambda: fresh.predict_proba(small_votes()))
    require_error(NotFittedError, "fit", doing=lambda: fresh.predict(small_votes()))


def _probabilities_are_probabilities(model: LabelModel) -> None:
    for n_classes in (2, 5):
        votes = small_votes(n_classes=n_classes)
        _require_probabilities(_proba(model, votes), (votes.n_items, n_classes))


def _predict_names_the_most_probable_class(model: LabelModel) -> None:
    votes = small_votes()
    fitted = _fitted(model)
    names = np.array(votes.labels.names, dtype=object)
    expected = names[fitted.predict_proba(votes).argmax(axis=1)]
    require_equal(expected, fitted.predict(votes), "predict and predict_proba disagree")


def _an_item_without_votes_gets_the_class_balance(model: LabelModel) -> None:
    votes = small_votes()
    for fitted in (_fitted(model), _fitted_to_balance(model)):
        got = fitted.predict_proba(votes)[~votes.covered]
        expected = np.tile(fitted.class_balance_, (len(got), 1))
        _require_close(got, expected, "items without votes", 1e-9)
    _require_close(fitted.class_balance_, _BALANCE, "a class balance that was given", 1e-9)


def _a_class_balance_may_be_given_by_name(model: LabelModel) -> None:
    votes = small_votes()
    by_name = dict(zip(reversed(votes.labels.names), reversed(_BALANCE), strict=True))
    in_order = _fitted_to_balance(model).predict_proba(votes)
    _require_close(_proba(model, votes, by_name), in_order, "by name and in order")
    fresh = _fresh(model)
    require_error(ParameterError, "class balance", doing=lambda: fresh.fit(votes, [0.5, 0.5]))


def _the_order_of_items_does_not_matter(model: LabelModel) -> None:
    votes = small_votes()
    order = np.random.default_rng(0).permutation(votes.n_items)
    _require_close(
        _fitted(model).predict_proba(votes)[order],
        _proba(model, votes[order]),
        "items in another order",
    )


def _the_order_of_voters_does_not_matter(model: LabelModel) -> None:
    votes = small_votes()
    turned = votes.select(voters=votes.voters[::-1])
    _require_close(
        _fitted(model).predict_proba(votes), _proba(model, turned), "voters in another order"
    )


def _the_order_of_classes_does_not_matter(model: LabelModel) -> None:
    votes = small_votes()
    # Of ranks, only the direction does not matter.
    names, order = votes.labels.names, np.array([2, 1, 0] if model.reads_order else [2, 0, 1])
    position_of = np.empty(3, dtype=np.int64)
    position_of[order] = np.arange(3)
    dense = votes.dense()
    dense = np.where(dense == ABSTAIN, ABSTAIN, position_of[dense])
    turned = VoteMatrix.from_dense(dense, [names[c] for c in order], votes.voters)
    balance = dict(zip(names, _BALANCE, strict=True))
    for fitted, given in ((_fitted(model), None), (_fitted_to_balance(model), balance)):
        first, second = fitted.predict_proba(votes), _proba(model, turned, given)
        _require_close(first[:, order], second, "classes in another order")


def _each_item_is_predicted_by_its_own_votes(model: LabelModel) -> None:
    votes = small_votes()
    fitted = _fitted(model)
    together = fitted.predict_proba(votes)
    _require_close(together[7:20], fitted.predict_proba(votes[7:20]), "items predicted apart", 1e-9)
    require(fitted.predict_proba(votes[:0]).shape == (0, 3), "no items, no rows")


def _voters_that_agree_and_are_mostly_right_win(model: LabelModel) -> None:
    votes, _ = make_votes(400, 8, 3, accuracies=0.85, coverage=0.9, seed=2)
    counts = votes.counts()
    unanimous = (counts.max(axis=1) == votes.votes_per_item) & (votes.votes_per_item >= 4)
    require(unanimous.sum() > 10, "the check has nothing to look at")
    won = _proba(model, votes).argmax(axis=1) == counts.argmax(axis=1)
    require(won[unanimous].all(), "an item got a label that none of its voters gave")


def _no_class_balance_overrules_all_voters_in_silence(model: LabelModel) -> None:
    for n_classes, rare in ((2, 1e-2), (2, 1e-5), (3, 1e-5)):
        votes, _ = make_votes(300, 8, n_classes, accuracies=0.85, coverage=1.0, seed=2)
        counts, balance = votes.counts(), [rare] * n_classes
        balance[0] = 1 - rare * (n_classes - 1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            label = _proba(model, votes, balance).argmax(axis=1)
        lost = (counts.max(axis=1) == votes.n_voters) & (label != counts.argmax(axis=1))
        of_the_largest = int(lost[counts[:, 0] > 0].sum())
        require(
            of_the_largest == 0,
            f"{of_the_largest} unanimous votes for the most frequent class were lost",
        )
        warned = any(issubclass(warning.category, WieselWarning) for warning in caught)
        require(
            warned or not lost.any(),
            f"{lost.sum()} unanimous votes lost against the class balance {balance}, and no "
            "warning says so",
        )


def _five_hundred_voters_do_not_underflow(model: LabelModel) -> None:
    votes, gold = make_votes(120, 500, 3, accuracies=0.8, coverage=1.0, seed=3)
    proba = _proba(model, votes)
    _require_probabilities(proba, (120, 3))
    right = float((proba.argmax(axis=1) == gold).mean())
    require(right > 0.99, f"500 good voters give {100 * right:.0f} % right labels")


def _a_class_that_nobody_votes_for_is_fine(model: LabelModel) -> None:
    dense = small_votes(n_classes=2).dense()
    labels = LabelSpace("class_0", "class_1", "never voted for")
    votes = VoteMatrix.from_dense(dense, labels)
    proba = _proba(model, votes)
    _require_probabilities(proba, (votes.n_items, 3))
    share = float((proba[votes.covered].argmax(axis=1) == 2).mean())
    require(share < 0.05, f"{100 * share:.0f} % of the items got a class that nobody voted for")


def _little_or_no_data_is_fine_or_refused(model: LabelModel) -> None:
    cases = {
        "one voter": [[0], [1], [0], [-1]],
        "two voters": [[0, 0], [1, 1], [0, 1], [-1, 1]],
        "one item": [[0, 1, 1]],
        "one vote": [[-1, -1, 0], [-1, -1, -1]],
        "no votes": [[-1, -1], [-1, -1]],
        "a silent voter": [[0, 0, -1, 1], [1, 1, -1, 1], [0, 1, -1, 0]],
    }
    for name, dense in cases.items():
        votes = VoteMatrix.from_dense(np.array(dense), ["a", "b"])
        try:
            proba = _proba(model, votes)
        except WieselError as error:
            require(len(str(error)) > 20, f"{name} is refused, but the message is {error}")
            continue
        _require_probabilities(proba, (len(dense), 2))


def _a_single_vote_for_a_class_is_followed(model: LabelModel) -> None:
    votes = VoteMatrix.from_dense(np.array([[0], [1], [0], [1]]), ["a", "b"])
    got = list(_fresh(model).fit(votes).predict(votes))
    require(got == ["a", "b", "a", "b"], f"the only voter voted a, b, a, b; the labels are {got}")


def _nothing_to_learn_from_is_refused(model: LabelModel) -> None:
    fresh = _fresh(model)
    no_items = VoteMatrix.from_dense(np.empty((0, 3), dtype=int), ["a", "b"])
    no_voters = VoteMatrix.from_dense(np.empty((3, 0), dtype=int), ["a", "b"])
    require_error(VoteError, "item", doing=lambda: fresh.fit(no_items))
    require_error(VoteError, "voter", doing=lambda: fresh.fit(no_voters))


def _other_voters_or_classes_are_refused(model: LabelModel) -> None:
    votes = small_votes()
    fitted = _fitted(model)
    fewer = votes.select(voters=votes.voters[:-1])
    require_error(VoteError, votes.voters[-1], doing=lambda: fitted.predict_proba(fewer))
    classes = VoteMatrix.from_dense(votes.dense(), ["x", "y", "z"], votes.voters)
    require_error(VoteError, "class_0", doing=lambda: fitted.predict_proba(classes))


def _certain_distributions_are_votes(model: LabelModel) -> None:
    votes = small_votes()
    array = np.zeros((votes.n_items, votes.n_voters, 3), dtype=np.float32)
    array[votes.item_index, votes.voter_index, votes.class_index] = 1
    certain = VoteMatrix.from_proba(array, votes.labels, votes.voters)
    _require_close(
        _fitted(model).predict_proba(votes), _proba(model, certain), "one-hot distributions"
    )


def _distributions_are_understood(model: LabelModel) -> None:
    array = np.random.default_rng(0).dirichlet([0.5, 0.5, 0.5], size=(80, 5))
    array[:4] = 0
    votes = VoteMatrix.from_proba(array, ["a", "b", "c"])
    _require_probabilities(_proba(model, votes), (80, 3))


def _votes_in_parts_give_the_same_model(model: LabelModel) -> None:
    votes = small_votes()
    whole = _fitted(model)
    parts = _Parts(votes, 50, 180, 180)
    in_parts = _fresh(model).fit(parts)
    proba = whole.predict_proba(votes)
    _require_close(proba, in_parts.predict_proba(votes), "fitted on parts of the votes")
    _require_close(proba, whole.predict_proba(parts), "predicted on parts of the votes")


def _a_clone_is_unfitted_and_has_the_same_options(model: LabelModel) -> None:
    copy = _fresh(_fitted(model))
    require(repr(copy) == repr(_fresh(model)), f"{copy!r} is not {model!r}")
    require_error(NotFittedError, "fit", doing=lambda: copy.predict(small_votes()))
    require_error(ParameterError, "no_such", doing=lambda: copy.set_params(no_such_option=1))


def _a_saved_model_comes_back_equal(model: LabelModel) -> None:
    votes = small_votes()
    fitted = _fitted(model)
    with tempfile.TemporaryDirectory() as folder:
        fitted.save(Path(folder) / "model")
        if type(model) not in [method.cls for method in METHODS.values()]:
            return  # only registered classes can be loaded
        loaded = load_model(Path(folder) / "model")
    require_equal(fitted.predict_proba(votes), loaded.predict_proba(votes), "after loading")
    require(repr(loaded) == repr(fitted), f"{fitted!r} came back as {loaded!r}")


def _planted_truth_is_found_as_well_as_by_majority_vote(model: LabelModel) -> None:
    balances = ((0.5, 0.5), (0.75, 0.25), (0.25, 0.25, 0.25, 0.25))
    for seed, balance in enumerate(balances):
        votes, gold = make_votes(
            1500, 12, len(balance), coverage=0.5, class_balance=balance, seed=seed
        )
        right = float((_proba(model, votes, balance).argmax(axis=1) == gold).mean())
        bar = float((_proba(MajorityVote(), votes, balance).argmax(axis=1) == gold).mean())
        require(
            right >= bar - 0.005,
            f"{right:.3f} of the items right with the balance {balance}; "
            f"majority vote has {bar:.3f}",
        )


def _run(check: Callable[[LabelModel], None], model: LabelModel) -> None:
    broken = f"{type(model).__name__} breaks the contract ({_sentence(check)})"
    try:
        check(model)
    except ContractError as error:
        raise ContractError(f"{broken}: {error}") from error
    except Exception as error:
        raise ContractError(f"{broken}: {type(error).__name__}: {error}") from error


def _sentence(check: Callable[[LabelModel], None]) -> str:
    return check.__name__.removeprefix("_").replace("_", " ")


_CHECKS: tuple[Callable[[LabelModel], None], ...] = (
    _fit_returns_self_and_changes_no_option,
    _probabilities_are_probabilities,
    _the_users_objects_are_untouched,
    _fitting_again_changes_nothing,
    _an_unfitted_model_says_so,
    _predict_names_the_most_probable_class,
    _an_item_without_votes_gets_the_class_balance,
    _a_class_balance_may_be_given_by_name,
    _the_order_of_items_does_not_matter,
    _the_order_of_voters_does_not_matter,
    _the_order_of_classes_does_not_matter,
    _each_item_is_predicted_by_its_own_votes,
    _voters_that_agree_and_are_mostly_right_win,
    _no_class_balance_overrules_all_voters_in_silence,
    _five_hundred_voters_do_not_underflow,
    _a_class_that_nobody_votes_for_is_fine,
    _little_or_no_data_is_fine_or_refused,
    _a_single_vote_for_a_class_is_followed,
    _nothing_to_learn_from_is_refused,
    _other_voters_or_classes_are_refused,
    _certain_distributions_are_votes,
    _distributions_are_understood,
    _votes_in_parts_give_the_same_model,
    _a_clone_is_unfitted_and_has_the_same_options,
    _a_saved_model_comes_back_equal,
    _planted_truth_is_found_as_well_as_by_majority_vote,
)
