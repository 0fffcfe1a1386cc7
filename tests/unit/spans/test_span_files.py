import json
import math

import pytest

from wiesel.errors import DataError
from wiesel.spans import (
    Documents,
    Span,
    apply_span_lfs,
    evaluate_spans,
    explain_spans,
    from_spacy,
    gazetteer,
    read_annotated,
    read_conll,
    read_docbin,
    read_doccano,
    read_label_studio,
    spans_page,
    write_conll,
    write_docbin,
    write_doccano,
    write_label_studio,
)

DOCUMENTS = Documents.from_texts(["Ada  Byron won.", "", "Bob\nlost"], ids=["a", "b", "c"])
SPANS = [[Span(0, 10, "PER")], [], [Span(0, 3, "PER"), Span(4, 8, "LOC")]]


def test_doccano_and_docbin_come_back_as_they_went():
    documents, spans = read_doccano(write_doccano(DOCUMENTS, SPANS))
    assert (documents.texts, spans, documents.ids.tolist()) == (
        DOCUMENTS.texts,
        SPANS,
        ["a", "b", "c"],
    )
    pytest.importorskip("spacy")
    documents, spans = read_docbin(write_docbin(DOCUMENTS, SPANS))
    assert (documents.texts, spans) == (DOCUMENTS.texts, SPANS)


def test_spacy_documents_keep_their_tokens():
    spacy = pytest.importorskip("spacy")
    documents, spans = from_spacy([spacy.blank("en")("The U.S. won")])
    assert documents[0].words == ["The", "U.S.", "won"]
    assert spans == [[]]


def test_conll_of_old_and_new_tags():
    old = "-X- O\n\nAda I-PER\nBob B-PER\n\nBonn I-LOC\n"
    documents, spans = read_conll(old)
    assert documents.texts == ("-X-", "Ada Bob", "Bonn")
    assert [span[:3] for span in spans[1]] == [(0, 3, "PER"), (4, 7, "PER")]
    assert read_conll(write_conll(documents, spans))[1] == spans


def test_conll_with_tags_for_ends_and_single_tokens():
    for text in ("a S-PER\nb B-LOC\nc E-LOC\n", "a U-PER\nb B-LOC\nc L-LOC\n"):
        assert [span[:3] for span in read_conll(text)[1][0]] == [(0, 1, "PER"), (2, 5, "LOC")]


def test_predictions_of_label_studio_are_read_only_when_asked_for(tmp_path):
    file = tmp_path / "tasks.json"
    file.write_text(write_label_studio(DOCUMENTS, SPANS))
    assert read_annotated(file)[1] == [[], [], []]
    assert read_annotated(file, predictions=True)[1] == SPANS


@pytest.mark.parametrize("text", ["Ada\n", "Ada PER\n", "Ada B-\n"])
def test_a_line_that_is_no_conll_is_named(text):
    with pytest.raises(DataError, match="Line 1"):
        read_conll(text)


def test_label_studio_annotations_are_read_and_predictions_written():
    tasks = json.loads(write_label_studio(DOCUMENTS, SPANS))
    for task in tasks:
        prediction = task.pop("predictions")[0]
        task["annotations"] = [{"was_cancelled": True, "result": []}, prediction]
    documents, spans = read_label_studio(json.dumps(tasks))
    assert (documents.texts, spans) == (DOCUMENTS.texts, SPANS)


def test_label_studio_gets_the_confidence_of_predicted_spans():
    sure = [[Span(0, 3, "PER", 0.9)], [], [Span(0, 3, "PER")]]
    tasks = json.loads(write_label_studio(DOCUMENTS, sure))
    regions = [task["predictions"][0]["result"] for task in tasks]
    assert regions[0][0]["score"] == 0.9
    assert "score" not in regions[2][0]


@pytest.mark.parametrize(
    ("reader", "text"), [(read_doccano, "{"), (read_doccano, "[1]"), (read_label_studio, "{}")]
)
def test_broken_files_are_refused(reader, text):
    with pytest.raises(DataError):
        reader(text)


def test_figures_of_exact_and_overlapping_spans():
    # Found: one right, one too short, one of the wrong label; missed: one.
    documents = Documents.from_texts(["Ada Byron met Bob in Bonn"])
    gold = [[(0, 9, "PER"), (14, 17, "PER"), (21, 25, "LOC")]]
    found = [[(0, 3, "PER"), (14, 17, "PER"), (18, 20, "LOC")]]
    report = evaluate_spans(gold, found, documents, ["PER", "LOC", "ORG"])
    assert report.exact["PER"][:3] == (0.5, 0.5, 0.5)
    assert report.overlap["PER"][:3] == (1.0, 1.0, 1.0)
    assert report.exact["LOC"].f1 == 0.0
    assert math.isnan(report.exact["ORG"].f1)
    assert report.exact["all"].recall == pytest.approx(1 / 3)
    assert report.token_accuracy == pytest.approx(3 / 6)
    assert "ORG" in str(report)


def test_an_explanation_names_what_voters_marked_and_the_model_did_not():
    documents = Documents.from_texts(["Ada met Bob in Bath", "nothing here"])
    names = gazetteer("PER", ["Ada", "Bob", "Bath"], name="names")
    cities = gazetteer("LOC", ["Bath"], name="cities")
    votes = apply_span_lfs([names, cities], documents, labels=["PER", "LOC"])
    marked = explain_spans(votes, [[Span(0, 3, "PER", 0.9)], []])
    assert str(marked[0]).splitlines() == [
        "0: [Ada PER] met Bob in Bath",
        "  PER (90 %) 'Ada': names",
        "  passed over: PER 'Bob': names",
        "  passed over: LOC 'Bath': cities; against: names (PER)",
        "  passed over: PER 'Bath': names; against: cities (LOC)",
    ]
    assert "passed over: PER &#x27;Bob&#x27;: names" in marked[0].to_html()
    assert not marked[1].passed_over


def test_a_page_escapes_texts_labels_and_voters():
    documents = Documents.from_texts(["<b>Ada</b>"], ids=["<i>"])
    label = "P<R"
    votes = apply_span_lfs(
        [gazetteer(label, ["Ada"], name="<lf>"), gazetteer("O", ["Ada"], name="no")],
        documents,
        labels=[label],
    )
    marked = explain_spans(votes, [[Span(3, 6, label, 0.5)]])
    page = spans_page(marked, "<title>")
    assert not any(raw in page for raw in ("<b>Ada", "P<R", "<lf>", "<i>", "<title><"))
    assert "against: no (O)" in str(marked[0])
