"""Figures: what is drawn on their axes, and that no global state of matplotlib is touched."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.colors import to_hex

from wiesel import DawidSkene, MajorityVote, OneCoin, TwoStage, VoteMatrix, evaluate, plots
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.errors import DataError, MissingExtraError, NotFittedError, ParameterError
from wiesel.evaluation import evaluate_proba
from wiesel.nn import Linear
from wiesel.plots.drawing import COLORS, MOST_VOTERS
from wiesel.training import History, seeded

VOTES = VoteMatrix.from_dense(
    [[0, 0, -1], [1, 0, -1], [1, 1, -1], [1, -1, -1]], ["ham", "spam"], ["busy", "half", "silent"]
)
GOLD = ["ham", "spam", "ham", None]


def names_of(axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def test_bars_are_as_long_as_the_share_of_items_and_stacked_by_class():
    (axes,) = plots.votes_per_voter(VOTES).axes
    assert names_of(axes) == ["busy", "half", "silent"]
    ham, spam = axes.containers
    assert [bar.get_width() for bar in ham] == [0.25, 0.5, 0]
    assert [bar.get_width() for bar in spam] == [0.75, 0.25, 0]
    assert [bar.get_x() for bar in spam] == [0.25, 0.5, 0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["ham", "spam"]
    assert to_hex(spam[0].get_facecolor()) == COLORS[1]
    assert axes.yaxis_inverted()  # the busiest is on top


def test_gold_labels_add_how_often_each_voter_is_right():
    (axes,) = plots.votes_per_voter(VOTES, gold=GOLD).axes
    # busy: ham, spam right of three known; half: ham right, ham and spam wrong.
    assert [text.get_text() for text in axes.texts] == ["67 % right", "33 % right", "no gold"]


def test_many_voters_are_the_busiest_ones_and_the_title_says_so():
    dense = np.full((60, 60), -1)
    dense[np.triu_indices(60)] = 0  # voter k votes k + 1 times
    (axes,) = plots.votes_per_voter(VoteMatrix.from_dense(dense, ["a", "b"])).axes
    assert len(names_of(axes)) == MOST_VOTERS
    assert names_of(axes)[0].endswith("59")
    assert "40 busiest of 60" in axes.get_title()


def test_agreement_is_a_symmetric_map_and_masked_where_voters_never_meet():
    figure = plots.agreement(VOTES)
    shown = figure.axes[0].images[0].get_array()
    assert shown[0, 1] == shown[1, 0] == pytest.approx(2 / 3)
    assert shown.mask.sum() == 7
    assert [text.get_text() for text in figure.axes[0].texts] == ["67", "67"]


def test_learning_curves_show_losses_members_scores_and_the_kept_epoch():
    def records(shift: float) -> list[dict]:
        return [
            {"epoch": k, "loss_end_model": shift + 1 / k, "validation_f1": k / 10, "shares": [0.5]}
            for k in (1, 2, 3)
        ]

    history = History(records(0.0), 2, False, [History(records(0.1)), History(records(-0.1))])
    losses, scores = plots.learning_curves(history).axes
    assert [len(losses.lines), len(scores.lines)] == [4, 4]  # two members, the mean, the kept one
    assert losses.lines[2].get_ydata().tolist() == pytest.approx([1, 0.5, 1 / 3])
    assert losses.lines[3].get_xdata() == [2, 2]
    assert [text.get_text() for text in losses.get_legend().get_texts()] == ["end model", "kept"]
    assert scores.lines[2].get_ydata().tolist() == [0.1, 0.2, 0.3]


def test_learning_curves_without_validation_are_one_panel():
    figure = plots.learning_curves(History([{"epoch": 1, "loss": 0.5}]))
    assert len(figure.axes) == 1


def test_calibration_draws_the_groups_of_the_report():
    proba = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.1, 0.9]])
    report = evaluate_proba(proba, ["ham", "spam", "spam", "spam"], ["ham", "spam"])
    figure = plots.calibration(report)
    points = figure.axes[0].lines[1]
    known = report.calibration.n_items > 0
    assert points.get_ydata().tolist() == report.calibration.accuracy[known].tolist()
    assert sum(bar.get_height() for bar in figure.axes[1].patches) == 4


def test_the_threshold_plot_has_the_curves_and_the_threshold_in_use():
    model = MajorityVote().fit(VOTES)
    (axes,) = plots.threshold(model, VOTES, ["ham", "spam", "spam", None]).axes
    precision, recall, f1, used = axes.lines
    assert recall.get_ydata()[0] == 1
    assert np.allclose(
        f1.get_ydata(),
        2 / (1 / precision.get_ydata() + 1 / recall.get_ydata()),
    )
    assert list(used.get_xdata()) == [0.5, 0.5]
    assert "spam" in axes.get_xlabel()


def test_label_models_show_the_accuracies_they_believe_in_best_first():
    model = OneCoin().fit(VOTES.select(["busy", "half"]))
    (axes,) = plots.voter_weights(model).axes
    shown = axes.lines[0].get_xdata()
    assert sorted(shown, reverse=True) == list(shown)
    assert np.allclose(np.sort(shown), np.sort(model.accuracies_))


def test_weights_for_each_item_are_a_median_and_a_range_over_the_items_with_a_vote():
    class Weighing:
        voters_ = VOTES.voters

        def check_fitted(self): ...

        def accuracies(self, X, votes):
            return np.arange(12.0).reshape(4, 3)

    (axes,) = plots.voter_weights(Weighing(), np.zeros((4, 1)), VOTES).axes
    # busy votes on all items: 0, 3, 6, 9; half on the first three: 1, 4, 7; silent on none.
    assert names_of(axes) == ["busy", "half", "silent"]
    assert axes.lines[0].get_xdata()[:2].tolist() == [4.5, 4.0]
    assert np.isnan(axes.lines[0].get_xdata()[2])
    (first, *_) = axes.collections[0].get_segments()
    assert first[:, 0].tolist() == pytest.approx([0.9, 8.1])


def test_dollar_signs_in_names_are_drawn_and_not_taken_for_formulas():
    votes = VoteMatrix.from_dense([[0, 1]], ["$a$", "b"], ["cost_$_1$", "x"])
    figure = plots.votes_per_voter(votes)
    figure.canvas.draw()
    assert r"\$" in names_of(figure.axes[0])[0]


@pytest.mark.parametrize(
    ("draw", "error", "words"),
    [
        (lambda: plots.votes_per_voter([[0, 1]]), DataError, "must be a VoteMatrix; got list"),
        (lambda: plots.calibration(0.5), ParameterError, r"wiesel\.evaluate"),
        (lambda: plots.learning_curves(MajorityVote()), ParameterError, "history_"),
        (lambda: plots.threshold(MajorityVote(), VOTES, GOLD), NotFittedError, "not fitted"),
        (lambda: plots.voter_weights(MajorityVote().fit(VOTES)), ParameterError, "single voters"),
        (lambda: plots.threshold(three(), three_votes(), [0]), ParameterError, "has 3"),
    ],
)
def test_mistakes_are_named(draw, error, words):
    with pytest.raises(error, match=words):
        draw()


def three_votes() -> VoteMatrix:
    return VoteMatrix.from_dense([[0, 1]], ["a", "b", "c"])


def three():
    return MajorityVote().fit(three_votes())


def test_a_plot_is_a_picture_and_leaves_pyplot_alone():
    report = evaluate(DawidSkene().fit(VOTES), VOTES, ["ham", "spam", "spam", "spam"])
    assert plots.calibration(report)._repr_png_().startswith(b"\x89PNG")
    code = (
        "import sys, wiesel; from wiesel import plots; "
        "assert 'matplotlib' not in sys.modules; "
        "votes = wiesel.VoteMatrix.from_dense([[0, 1]], ['a', 'b']); "
        "plots.agreement(votes)._repr_png_(); "
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    from wiesel.plots.drawing import _figure_class

    _figure_class.cache_clear()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'wiesel\[plots\]'"):
        plots.agreement(VOTES)
    _figure_class.cache_clear()


def test_weights_of_a_two_stage_model_are_those_of_its_explanations():
    votes, gold = make_votes(60, 3, coverage=0.6)
    X = make_features(gold, n_features=4)
    with seeded(0):
        model = TwoStage(MajorityVote(), Linear(4, 2), epochs=1).fit(X, votes)
    (axes,) = plots.voter_weights(model, X, votes).axes
    shown = dict(zip(names_of(axes), axes.lines[0].get_xdata(), strict=True))
    pushes = [
        p for i in np.flatnonzero(votes.covered) for p in model.explain(X[i], votes[i]).pushes
    ]
    for name in votes.voters:
        expected = np.median([push.weight for push in pushes if push.voter == name])
        assert shown[name] == pytest.approx(expected, abs=1e-6)
