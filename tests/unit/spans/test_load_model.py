"""`load_model` opens what span models save; files that somebody changed are refused."""

import numpy as np
import pytest

from wiesel import load_model
from wiesel.errors import DataError, SavedModelError
from wiesel.spans import (
    Documents,
    HiddenMarkov,
    apply_span_lfs,
    gazetteer,
    read_doccano,
    read_label_studio,
)


def test_load_model_opens_a_model_of_spans(tmp_path):
    documents = Documents.from_texts(["Ada met Bob", "Bob met Ada"])
    votes = apply_span_lfs(gazetteer("PER", ["Ada", "Bob"]), documents, labels=["PER"])
    model = HiddenMarkov().fit(votes)
    model.save(tmp_path / "model")
    assert load_model(tmp_path / "model").predict(votes) == model.predict(votes)


def test_a_model_whose_values_are_no_probabilities_is_refused(tmp_path):
    documents = Documents.from_texts(["Ada met Bob", "Bob met Ada"])
    votes = apply_span_lfs(gazetteer("PER", ["Ada", "Bob"]), documents, labels=["PER"])
    model = HiddenMarkov(abstain_as_vote=False).fit(votes)
    usual = model.marked_outside_
    for wrong in (np.nan, 2.0, -0.5):
        model.marked_outside_ = wrong
        model.save(tmp_path / "model")
        with pytest.raises(SavedModelError, match=f"marked_outside_ is no probability: {wrong}"):
            load_model(tmp_path / "model")
    model.marked_outside_, model.start_ = usual, model.start_ * np.nan
    model.save(tmp_path / "model")
    with pytest.raises(SavedModelError, match="start_ are not probabilities"):
        load_model(tmp_path / "model")
    model.start_ = np.full(7, 1 / 7)
    model.save(tmp_path / "model")
    with pytest.raises(SavedModelError, match=r"start_ is not an array of the shape \(3,\)"):
        load_model(tmp_path / "model")
    model.voters_ = (["Ada"],)
    model.save(tmp_path / "model")
    with pytest.raises(SavedModelError, match="voters are not names"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (read_label_studio, '[{"data": {"text": "Ada"}, "annotations": [true]}]'),
        (read_label_studio, "[3]"),
        (read_label_studio, "[" * 100_000),
        (read_doccano, '{"text": "Ada", "label": [[null, 3, "PER"]]}'),
        (read_doccano, "{}" + "\n" + "[" * 100_000),
    ],
)
def test_an_export_with_another_value_is_refused_in_our_words(read, text):
    with pytest.raises(DataError, match=r"export|JSON|Line 1"):
        read(text)
