import re

import pytest

from wiesel import LabelSpace
from wiesel.explain import Explanation, Push, predicted_class

LABELS = LabelSpace("ham", "spam")


def explanation(**changes) -> Explanation:
    values = {
        "item": "m17",
        "labels": LABELS,
        "end_proba": (0.1, 0.9),
        "soft_label": (0.25, 0.75),
        "pushes": (Push("link", "spam", 1.0, 1.0), Push("greeting", "ham", 0.5, -0.5)),
        "n_abstaining": 3,
        "abstaining_share": 0.4,
    }
    return Explanation(**{**values, **changes})


def test_it_prints_who_pushed_which_way_and_how_much():
    lines = str(explanation()).splitlines()
    assert lines[0] == "Item m17 is 'spam': end model 90 %, soft label 75 %."
    assert lines[2].split() == ["link", "spam", "1.00", "+1.00", "++++++++++"]
    assert lines[3].split() == ["greeting", "ham", "0.50", "-0.50", "-----"]
    assert lines[4] == "3 voters abstained; they hold 40 % of the weight."


def test_columns_line_up_under_long_names():
    text = str(explanation(pushes=(Push("a_very_long_voter_name", "spam", 10.0, 1.0),)))
    head, row = text.splitlines()[1:3]
    assert head.index("weight") + len("weight") == row.index("10.00") + len("10.00")


def test_an_item_without_votes_says_so():
    text = str(explanation(pushes=(), n_abstaining=1, abstaining_share=1.0))
    assert "No voter voted: the soft label is the class prior." in text
    assert "1 voter abstained; it holds 100 % of the weight." in text
    assert "No voter voted" in explanation(pushes=()).to_html()


def test_the_label_is_what_predict_says_threshold_included():
    assert explanation(end_proba=(0.6, 0.4)).label == "ham"
    assert explanation(end_proba=(0.6, 0.4), threshold=0.3).label == "spam"
    assert explanation(threshold=0.95).label == "ham"
    less_probable = str(explanation(end_proba=(0.6, 0.4), threshold=0.3))
    assert "is 'spam': end model 40 % (its threshold is 30 %)" in less_probable
    less_probable = str(explanation(threshold=0.95))
    assert "is 'ham': end model 10 % (its threshold is 5 %)" in less_probable
    assert "threshold" not in str(explanation(threshold=0.3))


@pytest.mark.parametrize(
    ("proba", "threshold", "expected"),
    [((0.5, 0.5), None, 0), ((0.5, 0.5), 0.5, 1), ((0.2, 0.3, 0.5), None, 2)],
)
def test_the_predicted_class_breaks_ties_as_predict_does(proba, threshold, expected):
    assert predicted_class(proba, threshold) == expected


def test_html_escapes_what_users_named():
    page = explanation(
        labels=LabelSpace("ham", "<script>"),
        item="<b>",
        pushes=(Push("<img src=x>", "<script>", 1.0, 1.0),),
    ).to_html()
    tags = set(re.findall(r"</?(\w+)", page))
    assert tags <= {"div", "p", "table", "tr", "td", "th"}
    assert "&lt;img src=x&gt;" in page
    assert explanation()._repr_html_() == explanation().to_html()


def test_no_effect_draws_no_bar():
    text = str(explanation(pushes=(Push("a", "ham", 0.0, 0.0),)))
    assert text.splitlines()[2].rstrip().endswith("+0.00")
