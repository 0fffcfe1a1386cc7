"""Files of annotation tools: read as votes, written as predictions, read again."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from wiesel import MajorityVote
from wiesel.cli.main import app
from wiesel.errors import DataError, ParameterError
from wiesel.io import TOOLS, read_annotations, read_rows, write_predictions
from wiesel.io.annotation import is_annotation_file

FILES = Path(__file__).parent / "files"
TEXTS = ["win a free prize now", "see you at eight"]
FILE_OF = {
    "label_studio": "label_studio.json",
    "doccano": "doccano.jsonl",
    "prodigy": "prodigy.jsonl",
    "argilla": "argilla.json",
}


def answers(found):
    return [(str(item), voter, label) for item, voter, label in found.votes.to_long().rows()]


def test_annotators_and_model_versions_of_label_studio_vote():
    found = read_annotations(FILES / "label_studio.json")
    # A cancelled annotation counts nothing, ground truth is gold, a number is no prediction.
    assert answers(found) == [
        ("11", "ann@example.org", "spam"),
        ("11", "annotator 2", "spam"),
        ("11", "bert v2", "ham"),
        ("12", "ann@example.org", "ham"),
    ]
    assert found.gold.tolist() == [-1, 0, -1]
    assert found.rows["source"].to_list() == ["mail", "chat", None]
    assert (found.tool, found.question, found.field) == ("label_studio", "kind", "text")


def test_the_short_export_of_label_studio():
    found = read_annotations(FILES / "label_studio_min.json")
    assert answers(found) == [
        ("11", "annotator 1", "spam"),
        ("11", "annotator 2", "ham"),
        ("12", "annotator 1", "ham"),
    ]
    assert found.question == "kind"
    assert found.rows.columns == ["id", "text"]


def test_annotators_of_doccano_vote():
    found = read_annotations(FILES / "doccano.jsonl")
    assert answers(found) == [("1", "ann", "spam"), ("1", "bob", "ham"), ("2", "ann", "ham")]


def test_doccano_has_a_file_for_each_annotator(tmp_path):
    for name, label in (("ann", "spam"), ("bob", "ham")):
        line = {"id": 1, "text": TEXTS[0], "label": [label]}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(line))
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        for name in ("ann", "bob"):
            archive.write(tmp_path / f"{name}.jsonl", f"{name}.jsonl")
    (tmp_path / "folder").mkdir()
    for name in ("ann", "bob"):
        (tmp_path / f"{name}.jsonl").rename(tmp_path / "folder" / f"{name}.jsonl")
    expected = [("1", "ann", "spam"), ("1", "bob", "ham")]
    assert answers(read_annotations(tmp_path / "export.zip")) == expected
    assert answers(read_annotations(tmp_path / "folder")) == expected


def test_annotators_of_prodigy_vote():
    found = read_annotations(FILES / "prodigy.jsonl")
    assert answers(found) == [
        ("1518", "mails-ann", "spam"),
        ("1518", "mails-bob", "other"),
        ("-88", "mails-ann", "ham"),
    ]
    assert found.rows.columns == ["id", "source", "text"]


def prodigy_answer(label, answer, text="hi"):
    return {"text": text, "label": label, "answer": answer, "_annotator_id": "ann"}


def test_a_rejected_label_of_prodigy_votes_where_one_class_is_left():
    alone = read_annotations(
        [prodigy_answer("SPAM", "reject"), prodigy_answer("SPAM", "accept", "yo")]
    )
    assert alone.votes.to_long()["label"].to_list() == ["not SPAM", "SPAM"]
    two = read_annotations([prodigy_answer("A", "reject"), prodigy_answer("B", "accept", "yo")])
    assert two.votes.to_long()["label"].to_list() == ["B", "B"]
    three = [prodigy_answer("A", "reject"), prodigy_answer("B", "accept", "yo")]
    three += [prodigy_answer("C", "accept", "ho")]
    assert read_annotations(three).votes.covered.tolist() == [False, True, True]


def test_users_and_agents_of_argilla_vote():
    found = read_annotations(FILES / "argilla.json")
    assert answers(found) == [
        ("m1", "7c1e", "spam"),
        ("m1", "90ab", "ham"),
        ("m1", "bert v2", "ham"),
        ("m2", "7c1e", "ham"),
    ]


def test_responses_of_the_first_version_of_argilla():
    record = {
        "fields": {"review": "good"},
        "responses": [
            {"user_id": "u1", "status": "submitted", "values": {"kind": {"value": "up"}}},
            {"user_id": "u2", "status": "draft", "values": {"kind": {"value": "down"}}},
        ],
        "suggestions": [{"question_name": "kind", "value": "down", "agent": "gpt"}],
    }
    found = read_annotations([record])
    assert answers(found) == [("0", "gpt", "down"), ("0", "u1", "up")]
    assert found.field == "review"


@pytest.mark.parametrize("tool", TOOLS)
def test_soft_labels_go_back_as_predictions_with_a_score(tool, tmp_path):
    found = read_annotations(FILES / FILE_OF[tool])
    proba = MajorityVote().fit(found.votes).predict_proba(found.votes)
    path = tmp_path / "predictions.json"
    found.write(path, proba, name="model 7")
    again = read_annotations(path, labels=found.votes.labels)
    covered = found.votes.covered
    assert (again.tool, again.votes.voters) == (tool, ("model 7",))
    assert again.votes.class_index.tolist() == proba[covered].argmax(axis=1).tolist()
    assert again.rows["text"].to_list() == TEXTS
    assert "0.5" in path.read_text() or "0.666667" in path.read_text()
    if tool in ("label_studio", "argilla"):
        assert again.question == found.question
        assert [str(each) for each in again.votes.ids] == [str(each) for each in found.votes.ids][
            :2
        ]


@pytest.mark.parametrize("tool", TOOLS)
def test_our_own_predictions_that_come_back_are_no_answers(tool, tmp_path):
    found = read_annotations(FILES / FILE_OF[tool])
    path = tmp_path / "predictions.json"
    found.write(path, MajorityVote().fit(found.votes).predict_proba(found.votes))
    with pytest.raises(DataError, match=r"no answers, only \d predictions that Wiesel wrote"):
        read_annotations(path, labels=found.votes.labels)


def test_our_own_predictions_beside_annotations_are_left_out_and_counted():
    tasks = json.loads((FILES / "label_studio.json").read_text())
    known = answers(read_annotations(tasks))
    ours = {"model_version": "wiesel", "result": tasks[0]["annotations"][0]["result"]}
    tasks[0]["predictions"].append(ours)
    found = read_annotations(tasks)
    assert answers(found) == known
    assert found.n_ours == 1


def test_a_person_who_corrected_our_prediction_in_doccano_is_named_by_the_file(tmp_path):
    for name, label in (("ann", "spam"), ("bob", "ham")):
        line = {"id": 1, "text": TEXTS[0], "label": [label], "annotator": "wiesel"}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(line))
    assert answers(read_annotations(tmp_path)) == [("1", "ann", "spam"), ("1", "bob", "ham")]
    assert is_annotation_file(tmp_path)
    (tmp_path / "manifest.json").write_text("{}")
    assert not is_annotation_file(tmp_path)


def test_the_score_is_the_probability_of_the_label(tmp_path):
    rows = {"id": [5], "text": ["hi"]}
    write_predictions(tmp_path / "a.json", rows, [[0.125, 0.875]], ["no", "yes"], tool="argilla")
    record = json.loads((tmp_path / "a.json").read_text())[0]
    assert record["suggestions"] == {"label": {"value": "yes", "score": 0.875, "agent": "wiesel"}}
    write_predictions(
        tmp_path / "l.json", rows, [[0.125, 0.875]], ["no", "yes"], tool="Label-Studio"
    )
    task = json.loads((tmp_path / "l.json").read_text())[0]
    assert task["predictions"][0]["score"] == 0.875
    assert task["data"] == {"text": "hi"}


def test_several_questions_need_a_choice():
    result = {"to_name": "text", "type": "choices"}
    task = {
        "data": {"text": "hi"},
        "annotations": [
            {
                "completed_by": 1,
                "result": [
                    {**result, "from_name": "kind", "value": {"choices": ["spam"]}},
                    {**result, "from_name": "mood", "value": {"choices": ["sad"]}},
                ],
            }
        ],
    }
    with pytest.raises(DataError, match="'kind', 'mood'"):
        read_annotations([task])
    assert read_annotations([task], question="mood", labels=["sad", "glad"]).votes.n_votes == 1
    with pytest.raises(DataError, match="Nobody answered"):
        read_annotations([task], question="tone")


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([], "no records"),
        ([{"a": 1}], "none of"),
        ([{"text": "hi", "label": ["a", "b"]}], "multilabel"),
        ([{"text": "hi", "label": [[0, 2, "PER"]]}], "wiesel.spans.read_doccano"),
        ([{"text": "hi", "label": ["a"]}], "labels="),
        ([{"text": "hi", "label": []}], "Nobody has answered"),
        ([{"data": {"text": "hi"}, "annotations": []}], "no answers"),
    ],
)
def test_what_cannot_be_read_is_told(records, words):
    with pytest.raises(DataError, match=words):
        read_annotations(records)


def test_marked_spans_are_not_classes():
    mark = {"from_name": "label", "to_name": "text", "type": "labels"}
    mark["value"] = {"start": 0, "end": 2, "labels": ["PER"]}
    task = {"data": {"text": "hi"}, "annotations": [{"completed_by": 1, "result": [mark]}]}
    with pytest.raises(DataError, match=r"spans\.read_label_studio"):
        read_annotations([task])


def test_unknown_tools_and_wrong_shapes_are_told(tmp_path):
    with pytest.raises(ParameterError, match="label_studio"):
        read_annotations(FILES / "argilla.json", "labelstudio")
    with pytest.raises(DataError, match="shape"):
        write_predictions(
            tmp_path / "a.json", {"text": ["a"]}, [[1.0]], ["no", "yes"], tool="doccano"
        )
    with pytest.raises(DataError, match="no texts"):
        write_predictions(
            tmp_path / "a.json", {"id": [1]}, [[1.0, 0]], ["no", "yes"], tool="doccano"
        )
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"text": "hi"\n')
    with pytest.raises(DataError, match=r"broken\.jsonl.*Line 1"):
        read_annotations(broken)


def test_a_table_in_json_lines_is_no_file_of_a_tool(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text('{"task": "t1", "worker": "ann", "label": "cat"}\n')
    assert not is_annotation_file(path)
    assert is_annotation_file(FILES / "prodigy.jsonl")
    assert len(read_rows(path)) == 1


def test_columns_without_one_type_become_text():
    tasks = [
        {"id": k, "text": str(k), "label": [label], "when": when}
        for k, (label, when) in enumerate((("a", 1), ("b", "later")))
    ]
    assert read_annotations(tasks).rows["when"].to_list() == ["1", "later"]
    assert np.array_equal(read_annotations(tasks).votes.ids, [0, 1])


@pytest.mark.parametrize(
    ("tool", "change"),
    [
        ("prodigy", {"options": [0.5]}),
        ("argilla", {"responses": 5}),
        ("label_studio", {"annotations": [{"result": [1]}]}),
        ("doccano", {"id": {"a": 1}}),
        ("doccano", {"id": 10**400}),
    ],
)
def test_values_that_a_tool_never_writes_are_told_with_the_file(tool, change, tmp_path):
    file = FILES / FILE_OF[tool]
    text = file.read_text()
    records = json.loads(text) if text.startswith("[") else list(map(json.loads, text.splitlines()))
    odd = tmp_path / "odd.json"
    odd.write_text(json.dumps([{**records[0], **change}, *records[1:]]))
    with pytest.raises(
        DataError, match=f"odd.json: This {tool} file is not as that tool writes it"
    ):
        read_annotations(odd, tool)


def test_zip_files_that_unpack_to_very_much_or_have_a_password_are_refused(tmp_path):
    file = tmp_path / "export.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ann.jsonl", " ")
    content = bytearray(file.read_bytes())
    # The size in the directory of the archive: zipfile unpacks no more than that.
    size = content.index(b"PK\x01\x02") + 24
    huge = content[:size] + (2**31).to_bytes(4, "little") + content[size + 4 :]
    file.write_bytes(huge)
    with pytest.raises(DataError, match=r"unpacks to 2,048 MB.*Unpack it"):
        read_annotations(file)
    content[content.index(b"PK\x01\x02") + 8] |= 1
    file.write_bytes(content)
    with pytest.raises(DataError, match="not a doccano zip file"):
        read_annotations(file)


def test_ratings_of_label_studio_go_back_as_ratings(tmp_path):
    tasks = [
        {
            "id": number,
            "data": {"text": f"film {number}"},
            "annotations": [
                {
                    "completed_by": person,
                    "result": [
                        {
                            "from_name": "stars",
                            "to_name": "text",
                            "type": "rating",
                            "value": {"rating": stars},
                        }
                    ],
                }
                for person, stars in enumerate(given)
            ],
        }
        for number, given in enumerate([(2, 2), (10, 9), (2, 9), (10, 10)])
    ]
    found = read_annotations(tasks)
    assert found.votes.labels.names == ("2", "9", "10")
    assert found.votes.labels.ordered
    found.write(tmp_path / "back.json", np.eye(3)[[0, 2, 0, 2]], name="bert")
    back = json.loads((tmp_path / "back.json").read_text())
    result = back[1]["predictions"][0]["result"][0]
    assert (result["type"], result["value"]) == ("rating", {"rating": 10})
    again = read_annotations(tmp_path / "back.json")
    assert again.rating
    assert again.votes.to_long()["label"].to_list() == ["2", "10", "2", "10"]
    source = tmp_path / "stars.json"
    source.write_text(json.dumps(tasks))
    words = ["aggregate", str(source), "-o", str(tmp_path / "labels.json")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    written = json.loads((tmp_path / "labels.json").read_text())
    assert written[0]["predictions"][0]["result"][0]["value"] == {"rating": 2}
    with pytest.raises(DataError, match="Ratings are numbers; the classes are 'a', 'b'"):
        write_predictions(
            source, {"id": [1]}, [[1, 0]], ["a", "b"], tool="label_studio", rating=True
        )
