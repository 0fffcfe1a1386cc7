import json
import math

import numpy as np
import pytest

from wiesel.errors import DataError, ParameterError
from wiesel.evaluation import Score
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


def test_texts_with_any_line_end_of_unicode_come_back_as_they_went():
    odd = Documents.from_texts(["Ada\u2028Byron", "a\x85b", "a\x0bb\x1cc"])
    for text in ("\r\n", "\r"):
        again = read_doccano(write_doccano(odd, [[], [], []]).replace("\n", text))[0]
        assert again.texts == odd.texts


def test_the_word_number_sign_in_conll_is_not_a_comment():
    documents = Documents.from_texts(["# 1 hit", "#"])
    again, spans = read_conll(write_conll(documents, [[(0, 3, "RANK")], []]))
    assert [each.words for each in again] == [["#", "1", "hit"], ["#"]]
    assert spans == [[Span(0, 3, "RANK")], []]
    documents, _ = read_conll("# sent_id = 1\n# text\nPay VB O\n# SYM B-SUM\n5 CD I-SUM\n")
    assert documents[0].words == ["Pay", "#", "5"]


@pytest.mark.parametrize("label", ["first name", "x O", "PER\u2028", "\n"])
def test_labels_with_white_space_are_not_written_as_conll(label):
    with pytest.raises(DataError, match="white space"):
        write_conll(Documents.from_texts(["Ada"]), [[(0, 3, label)]])


def test_offsets_of_old_label_studio_count_an_emoji_as_two():
    def task(start, end):
        value = {"start": start, "end": end, "text": "Ada", "labels": ["PER"]}
        return {
            "data": {"text": "\N{PILE OF POO} Ada"},
            "annotations": [{"result": [{"value": value}]}],
        }

    _, spans = read_label_studio(json.dumps([task(3, 6), task(2, 5)]))
    assert spans == [[Span(2, 5, "PER")], [Span(2, 5, "PER")]]


@pytest.mark.parametrize("span", ["[0.5, 2, 'P']", "[0, 3, None]", "[0, 3, ['P']]", "[0, 3]"])
def test_spans_in_files_have_whole_offsets_and_a_name(span):
    text = span.replace("'", '"').replace("None", "null")
    with pytest.raises(DataError, match="Text 1 of this doccano export"):
        read_doccano(f'{{"text": "Ada met Bob", "label": [{text}]}}')


def test_half_a_character_is_refused_when_it_is_read():
    with pytest.raises(DataError, match=r"Line 1 .* surrogates"):
        read_doccano('{"text": "\\ud83d Ada", "label": []}')
    assert read_doccano('{"text": "\\ud83d\\ude00"}')[0].texts == ("\N{GRINNING FACE}",)


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


def test_a_long_document_with_many_spans_is_compared_and_explained_quickly():
    # Comparing every span with every other would take minutes.
    documents = Documents.from_texts(["Ada met Bob "] * 2 + ["Ada met Bob " * 4_000])
    votes = apply_span_lfs(
        [gazetteer("PER", ["Ada", "Bob"], name="names"), gazetteer("ACT", ["met"], name="acts")],
        documents,
        labels=["PER", "ACT"],
    )
    spans = votes.spans("names")
    report = evaluate_spans(spans, spans, documents, votes.labels)
    assert report.exact["all"][:3] == report.overlap["all"][:3] == (1.0, 1.0, 1.0)
    assert report.exact["all"].n_gold == 8_004
    assert len(explain_spans(votes, spans)[2].passed_over) == 4_000


def test_spans_that_overlap_are_named_by_their_kind():
    documents = Documents.from_texts(["Ada Byron"])
    nested, fine = [[(0, 9, "PER"), (0, 3, "PER")]], [[(0, 3, "PER")]]
    with pytest.raises(DataError, match="Gold spans overlap"):
        evaluate_spans(nested, fine, documents, ["PER"])
    with pytest.raises(DataError, match="Predicted spans overlap"):
        evaluate_spans(fine, nested, documents, ["PER"])


def test_a_label_cannot_have_the_name_of_the_figures_of_all_labels():
    with pytest.raises(ParameterError, match="other than 'O', 'all'"):
        evaluate_spans([[]], [[]], Documents.from_texts(["Ada"]), ["PER", "all"])


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


def test_with_gold_an_explanation_tells_wrong_and_missed_spans():
    documents = Documents.from_texts(["Ada Byron met Bob in Bath", "nothing here"])
    votes = apply_span_lfs(gazetteer("PER", ["Ada"], name="names"), documents, labels=["PER"])
    found = [[Span(0, 3, "PER", 0.9), Span(14, 17, "PER", 0.8)], []]
    gold = [[(0, 9, "PER"), (14, 17, "PER"), (21, 25, "PER")], []]
    marked = explain_spans(votes, found, gold)
    assert str(marked[0]).splitlines() == [
        "0: [Ada PER] Byron met [Bob PER] in Bath",
        "  wrong: PER (90 %) 'Ada': names",
        "  PER (80 %) 'Bob': nobody",
        "  missed: PER 'Ada Byron': names",
        "  missed: PER 'Bath': nobody",
    ]
    assert [each.n_mistakes for each in marked] == [3, 0]
    page = marked[0].to_html()
    assert page.count("<sub>wrong PER</sub>") == page.count("<sub>missed PER</sub>") == 1
    assert "Bath <sub>missed PER</sub>" in page
    assert page.index("<sub>wrong") < page.index("Bob <sub>PER") < page.index("<sub>missed")
    with pytest.raises(DataError, match="gold spans of 1 documents, and 2 documents"):
        explain_spans(votes, found, [[]])


def test_a_page_counts_the_spans_of_each_label():
    documents = Documents.from_texts(["Ada met Bob", "Bob saw Bath"])
    votes = apply_span_lfs(gazetteer("PER", ["Ada", "Bob"]), documents, labels=["PER", "LOC"])
    spans = [[Span(0, 3, "PER"), Span(8, 11, "PER")], [Span(0, 3, "PER"), Span(8, 12, "LOC")]]
    page = spans_page(explain_spans(votes, spans))
    assert "<tr><td>PER</td><td>3</td></tr><tr><td>LOC</td><td>1</td></tr>" in page


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


def test_f1_of_spans_has_an_interval_that_holds_on_twenty_documents():
    """A quarter of the documents are long, and all their spans are found or missed together."""
    rng = np.random.default_rng(2)
    text = "Ada met Bob and Eve saw Dan"
    places = [(0, 3), (8, 11), (16, 19), (24, 27)]
    sizes = np.where(rng.random(400) < 0.25, 4, 1)
    gold = [[(*place, "PER") for place in places[:size]] for size in sizes]
    found = [own if rng.random() < 0.8 else [(4, 7, "PER")] for own in gold]

    def f1(rows: np.ndarray) -> Score:
        documents = Documents.from_texts([text] * len(rows))
        parts = ([spans[row] for row in rows] for spans in (gold, found))
        return evaluate_spans(*parts, documents, ["PER"]).exact["all"].f1

    truth = float(f1(np.arange(400)))
    drawn = [f1(rng.permutation(400)[:20]) for _ in range(60)]
    assert np.mean([each.low <= truth <= each.high for each in drawn]) >= 0.9
    assert np.mean([each.high - each.low for each in drawn]) < 0.5
    report = evaluate_spans(gold, found, Documents.from_texts([text] * 400), ["PER"])
    assert report.parts.mean() == pytest.approx(float(report.exact["all"].f1))
