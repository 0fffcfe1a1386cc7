"""Rows are predicted in pieces; a bad row is a record, and an interruption loses no piece."""

import json

import numpy as np
import polars as pl
import pytest

import wiesel as ws
from wiesel.errors import DataError, FeatureError
from wiesel.features import TabularFeatures, TextFeatures
from wiesel.nn import Linear
from wiesel.project import predicting
from wiesel.project.bundle import Bundle, load_bundle
from wiesel.project.predicting import predict_file, predict_records

pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.CollapseWarning")

GOLD = np.arange(40) % 2
VOTES = ws.VoteMatrix.from_dense(np.stack([GOLD, GOLD], axis=1), labels=["ham", "spam"])
ROWS = pl.DataFrame(
    {
        "id": [f"m{k}" for k in range(40)],
        "text": [f"{'free prize' if g else 'see you'} {k % 3}x" for k, g in enumerate(GOLD)],
        "length": [float(g * 10 + k % 3) for k, g in enumerate(GOLD)],
        "grade": [k % 4 for k in range(40)],
    }
)


def bundle_of(folder, features, items) -> Bundle:
    X = features.fit_transform(items)
    net = Linear(X.shape[1], 2)
    ws.TwoStage(ws.MajorityVote(), net, epochs=1, epoch_size=40).fit(X, VOTES).save(
        folder, features=features
    )
    return load_bundle(folder)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "texts"
    return bundle_of(folder, TextFeatures(min_count=1), ROWS["text"])


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    features = TabularFeatures(numeric=["length"], categorical=["grade"])
    return bundle_of(tmp_path_factory.mktemp("model") / "table", features, ROWS)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(predicting, "PIECE_ROWS", 7)


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_all_formats_are_read_and_written_in_pieces(texts, tmp_path, kind):
    ws.io.write_rows(ROWS, tmp_path / f"rows.{kind}")
    found = predict_file(texts, tmp_path / f"rows.{kind}", tmp_path / f"out.{kind}")
    written = ws.io.read_rows(tmp_path / f"out.{kind}")
    assert written.columns == ["id", "prediction", "p: ham", "p: spam"]
    assert written["id"].to_list() == ROWS["id"].to_list()
    assert written["prediction"].to_list() == texts.predict(ROWS).tolist()
    assert np.allclose(written["p: spam"], texts.predict_proba(ROWS)[:, 1], atol=1e-6)
    assert (found.n_items, found.n_errors, found.frame) == (40, 0, None)
    assert sum(found.counts.values()) == 40
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"out.{kind}", f"rows.{kind}"]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_missing_text_is_marked_and_not_classified(texts, tmp_path, kind):
    rows = ROWS.with_columns(text=pl.when(pl.col("id") == "m9").then(None).otherwise("text"))
    rows = rows.with_columns(
        text=pl.when(pl.col("id") == "m11").then(pl.lit(" ")).otherwise("text")
    )
    ws.io.write_rows(rows, tmp_path / f"rows.{kind}")
    found = predict_file(texts, tmp_path / f"rows.{kind}")
    assert found.n_errors == 2
    assert found.frame is not None
    bad = found.frame.filter(pl.col("error").is_not_null())
    assert bad["id"].to_list() == ["m9", "m11"]
    assert bad["error"].unique().to_list() == ["There is no text in 'text'."]
    assert bad["prediction"].null_count() == bad["p: ham"].null_count() == 2
    assert found.frame["prediction"].null_count() == 2


def test_a_bad_line_is_one_error_in_its_place(texts, tmp_path):
    lines = ROWS.write_csv(separator=",").splitlines()
    lines[12] = lines[12].replace("m11,", 'm11,"')  # a quotation mark that is never closed
    lines[20] += ",one more"
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    found = predict_file(texts, tmp_path / "rows.csv", tmp_path / "out.csv")
    written = pl.read_csv(tmp_path / "out.csv")
    assert (found.n_items, found.n_errors) == (40, 2)
    assert written["error"][11] == "Line 13: a quotation mark is not closed"
    assert written["error"][19] == "Line 21: it has 5 cells, and the header has 4"
    kept = [k for k in range(40) if k not in (11, 19)]
    assert written["prediction"][kept].to_list() == texts.predict(ROWS[kept]).tolist()
    assert written["id"][kept].to_list() == ROWS["id"][kept].to_list()


def test_bad_rows_go_to_a_file_of_their_own(texts, tmp_path):
    lines = ROWS.write_ndjson().splitlines()
    lines[5] = "{oops"
    lines[30] = json.dumps({"id": "m30", "text": ["a"]})
    (tmp_path / "rows.jsonl").write_text("\n".join(lines) + "\n")
    predict_file(texts, tmp_path / "rows.jsonl", tmp_path / "out.csv", errors=tmp_path / "bad.csv")
    assert len(pl.read_csv(tmp_path / "out.csv")) == 38
    bad = pl.read_csv(tmp_path / "bad.csv")
    assert bad["row"].to_list() == [5, 30]
    assert bad["id"].to_list() == [None, "m30"]
    assert bad["error"][0].startswith("Line 6 of the input is not JSON")
    assert bad["error"][1] == "'text' is ['a'], not a text."


def test_a_wrong_number_is_an_error_of_its_row(table, tmp_path):
    cells = ROWS["length"].cast(pl.String).to_list()
    cells[3], cells[4] = "long", "inf"
    ROWS.with_columns(length=pl.Series(cells)).write_csv(tmp_path / "rows.csv")
    found = predict_file(table, tmp_path / "rows.csv")
    assert found.examples == [
        "'length' is 'long', not a finite number.",
        "'length' is 'inf', not a finite number.",
    ]
    assert found.frame is not None
    kept = [k for k in range(40) if k not in (3, 4)]
    assert np.allclose(found.frame["p: spam"][kept], table.predict_proba(ROWS[kept])[:, 1])


def test_categories_of_a_damaged_file_are_those_of_training(table, tmp_path):
    lines = ROWS.with_columns(grade="0" + pl.col("grade").cast(pl.String)).write_csv().splitlines()
    lines[1] += ",one more"
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    found = predict_file(table, tmp_path / "rows.csv")
    assert found.n_errors == 1
    assert found.frame is not None
    assert np.allclose(found.frame["p: spam"][1:], table.predict_proba(ROWS)[1:, 1])


def test_an_interrupted_call_continues(texts, tmp_path, monkeypatch):
    ROWS.write_csv(tmp_path / "rows.csv")
    predicted, whole = [], Bundle.predict_proba

    def counting(self, rows):
        if len(predicted) == 3:
            predicted.clear()
            raise KeyboardInterrupt
        predicted.append(rows["id"][0])
        return whole(self, rows)

    monkeypatch.setattr(Bundle, "predict_proba", counting)
    with pytest.raises(KeyboardInterrupt):
        predict_file(texts, tmp_path / "rows.csv", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
    found = predict_file(texts, tmp_path / "rows.csv", tmp_path / "out.csv")
    assert predicted == ["m21", "m28", "m35"]
    assert found.n_items == 40
    monkeypatch.undo()
    assert pl.read_csv(tmp_path / "out.csv")["prediction"].to_list() == texts.predict(ROWS).tolist()


def test_other_rows_or_another_model_start_over(texts, table, tmp_path, monkeypatch):
    ROWS.write_csv(tmp_path / "rows.csv")

    def stopping(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(predicting._Pieces, "finish", stopping)
        with pytest.raises(KeyboardInterrupt):
            predict_file(texts, tmp_path / "rows.csv", tmp_path / "out.csv")
    pieces = tmp_path / ".out.csv.pieces"
    assert len(list(pieces.glob("*.parquet"))) == 6
    predict_file(table, tmp_path / "rows.csv", tmp_path / "out.csv")
    written = pl.read_csv(tmp_path / "out.csv")
    assert np.allclose(written["p: spam"], table.predict_proba(ROWS)[:, 1])
    assert not pieces.exists()


def test_a_folder_is_read_as_one_table(texts, tmp_path):
    (tmp_path / "rows").mkdir()
    ROWS[:10].write_parquet(tmp_path / "rows/a.parquet")
    ROWS[10:].write_parquet(tmp_path / "rows/b.parquet")
    found = predict_file(texts, tmp_path / "rows")
    assert found.frame is not None
    assert found.frame["id"].to_list() == ROWS["id"].to_list()


def test_a_file_without_a_good_row_is_refused(texts, tmp_path):
    (tmp_path / "rows.csv").write_text("id,text\n1,\n2,\n")
    with pytest.raises(DataError, match=r"no row of it can be predicted\. There is no text"):
        predict_file(texts, tmp_path / "rows.csv", tmp_path / "out.csv")
    (tmp_path / "rows.csv").write_text("id,text\n1,a,b,c\n")
    with pytest.raises(DataError, match="fields in line 2"):
        predict_file(texts, tmp_path / "rows.csv", tmp_path / "out.csv")
    assert [file.name for file in tmp_path.iterdir()] == ["rows.csv"]


def test_rows_without_ids_are_numbered_through(texts, tmp_path):
    ROWS.drop("id").write_csv(tmp_path / "rows.csv")
    found = predict_file(texts, tmp_path / "rows.csv")
    assert found.frame is not None
    assert found.frame["id"].to_list() == [str(k) for k in range(40)]


def test_a_row_that_breaks_its_piece_is_found(texts, monkeypatch):
    def fragile(self, rows):
        if any("prize 2x" in text for text in rows["text"]):
            raise FeatureError("This one\nis broken.")
        return np.full((len(rows["text"]), 2), 0.5)

    monkeypatch.setattr(Bundle, "predict_proba", fragile)
    answers = predict_records(texts, ROWS.to_dicts())
    bad = [answer["id"] for answer in answers if "error" in answer]
    assert bad == [row["id"] for row in ROWS.to_dicts() if "prize 2x" in row["text"]]
    assert {answer.get("error") for answer in answers} == {None, "This one is broken."}


def test_records_of_a_table_are_checked(table):
    good = {"length": 3, "grade": 1}
    wrong = [
        {**good, "length": "3"}, {"length": 3}, {**good, "grade": [1]}, {**good, "length": 1e999},
    ]  # fmt: skip
    answers = predict_records(table, [good, *wrong, {"length": None, "grade": None}])
    assert ["error" in answer for answer in answers] == [False, True, True, True, True, False]
    assert answers[1]["error"] == "'length' is '3', not a finite number."
    assert answers[2]["error"] == "There is no column 'grade'."
    expected = table.predict_proba([good])[0]
    assert list(answers[0]["proba"].values()) == pytest.approx(expected.tolist())
