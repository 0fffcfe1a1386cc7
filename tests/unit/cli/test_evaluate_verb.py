"""`wiesel evaluate`: covered and uncovered items, and two models on the same items."""

import pytest

from tiny_project import run_wiesel, tiny_project

pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A tiny project after a run, with a second model beside the first."""
    tiny, wiesel = tiny_project(tmp_path_factory.mktemp("evaluate")), run_wiesel
    for method, name in (("majority_vote", "first"), ("snorkel", "second")):
        assert wiesel("run", tiny, "--method", method).exit_code == 0
        (tiny / "out/model").rename(tiny / name)
    votes = ("--lfs", tiny / "lfs.py", "--labels", "billing,technical", "-o", tiny / "v.parquet")
    assert wiesel("apply", tiny / "test.csv", *votes, "--id", "id").exit_code == 0
    # The tiny messages are few, and repeat. These are new.
    rows = (tiny / "test.csv").read_text()
    (tiny / "fresh.csv").write_text(
        rows.replace(",billing", " today,billing").replace(",tech", " today,tech")
    )
    return tiny


def test_covered_and_uncovered_items_are_judged_apart(trained, wiesel, wiesel_json):
    words = ("evaluate", trained / "first", trained / "test.csv", "--votes", trained / "v.parquet")
    report = wiesel_json(*words)["report"]
    sizes = [report[part]["n_items"] for part in ("covered", "uncovered")]
    # Of six texts in turn, "my bill has an error" and "I cannot log in" get no vote: 4 of 12.
    assert sizes == [8, 4]
    assert "covered (8)" in wiesel(*words).stdout


def test_rows_that_the_votes_do_not_know_are_refused(trained, wiesel, tmp_path):
    """They would count as items without a vote, which is something else."""
    rows = (trained / "test.csv").read_text()
    renamed = tmp_path / "renamed.csv"
    renamed.write_text(rows.replace("t3,", "x3,").replace("t7,", "x7,"))
    votes = ("--votes", trained / "v.parquet")
    result = wiesel("evaluate", trained / "first", renamed, *votes)
    assert result.exit_code == 1
    assert "v.parquet has no votes on 2 of the 12 items, such as 'x3', 'x7'" in result.stderr
    part = tmp_path / "part.csv"
    part.write_text("\n".join(rows.splitlines()[:7]))
    assert "covered (4)" in wiesel("evaluate", trained / "first", part, *votes).stdout


def test_votes_without_ids_on_rows_with_ids_are_refused_with_the_cure(trained, wiesel, tmp_path):
    votes = ("--lfs", trained / "lfs.py", "--labels", "billing,technical")
    file = tmp_path / "plain.parquet"
    assert wiesel("apply", trained / "test.csv", *votes, "-o", file).exit_code == 0
    result = wiesel("evaluate", trained / "first", trained / "test.csv", "--votes", file)
    assert result.exit_code == 1
    assert "no votes on 12 of the 12 items" in result.stderr
    assert "its ids look like '0'" in " ".join(result.stderr.split())


def test_two_models_are_compared_on_the_same_items(trained, wiesel, wiesel_json):
    words = ("evaluate", trained / "first", trained / "test.csv", "--against", trained / "second")
    paired = wiesel_json(*words)["paired"]
    assert 0 < paired["p_value"] <= 1
    assert set(paired["differences"]) >= {"accuracy", "f1"}
    assert "McNemar" in wiesel(*words).stdout


def test_votes_and_models_that_do_not_belong_are_refused(trained, wiesel, tmp_path):
    words = ("evaluate", trained / "first", trained / "test.csv")
    assert "There is no file" in wiesel(*words, "--votes", tmp_path / "no.parquet").stderr
    assert "is not a saved model" in wiesel(*words, "--against", tmp_path / "no").stderr
    (tmp_path / "new.csv").write_text("text,label\nthe invoice,billing\n")
    short = ("evaluate", trained / "first", tmp_path / "new.csv", "--votes", trained / "v.parquet")
    result = wiesel(*short)
    assert result.exit_code == 1
    assert "votes on 12 items and there are 1 rows" in result.stderr


def test_a_model_is_promoted_unless_it_is_worse(trained, wiesel, wiesel_json, tmp_path):
    in_use, rows = tmp_path / "in_use", trained / "fresh.csv"
    in_use.mkdir()
    first = wiesel_json("promote", trained / "first", in_use, rows)
    assert (first["outcome"], first["paired"]) == ("promoted", None)
    assert wiesel_json("promote", trained / "first", in_use, rows)["outcome"] == "unchanged"
    changed = tmp_path / "changed.csv"
    second = wiesel("promote", trained / "second", in_use, rows, "--changed", changed)
    gain = (
        12
        * wiesel_json("evaluate", trained / "second", rows, "--against", trained / "first")[
            "paired"
        ]["differences"]["accuracy"]["value"]
    )
    assert second.exit_code == (3 if gain < 0 else 0)
    assert f"accuracy changes by {100 * gain / 12:+.1f} points" in second.stdout
    assert changed.read_text().splitlines()[0].endswith("in use,new,gold")
    versions = wiesel_json("inspect", tmp_path / "in_use-versions")["versions"]
    assert [row["version"] for row in versions] == ([1] if gain < 0 else [1, 2])
    predicted = wiesel("predict", in_use, rows)
    assert predicted.exit_code == 0


def test_what_is_worse_stays_out(trained, wiesel, tmp_path):
    """The labels of the rows are what the model in use says, so any change is for the worse."""
    import polars as pl

    from wiesel.project import load_bundle, promote

    rows = pl.read_csv(trained / "fresh.csv")
    said = load_bundle(trained / "first").predict(rows)
    assert promote(trained / "first", tmp_path / "in_use", rows).outcome == "promoted"
    flipped = ["technical" if name == "billing" else "billing" for name in said]
    against = load_bundle(trained / "second").predict(rows)
    rows = rows.with_columns(pl.Series("label", list(said), dtype=pl.String))
    n_changed = sum(one != other for one, other in zip(said, against, strict=True))
    found = promote(trained / "second", tmp_path / "in_use", rows)
    assert len(found.changed) == n_changed
    assert found.outcome == ("refused" if n_changed else "promoted")
    kept = promote(trained / "second", tmp_path / "in_use", rows, allowed_loss=1.0)
    assert kept.outcome in ("promoted", "unchanged")
    wrong = rows.with_columns(pl.Series("label", flipped))
    assert "Promoted" in promote(trained / "first", tmp_path / "in_use", wrong, allowed_loss=1).why


def test_rows_that_a_model_has_learned_do_not_decide_unnoticed(trained, wiesel, tmp_path):
    import polars as pl

    from wiesel.project import promote

    fresh = pl.DataFrame({"text": ["the gizmo is broken", "a dollar back"], "label": GOLD})
    learned = pl.read_csv(trained / "dev.csv").select("text", "label")
    assert promote(trained / "first", tmp_path / "in_use", fresh).warning == ""
    # As a person would copy them: with other white space, and without their ids.
    copies = learned.head(3).with_columns(pl.col("text") + "  ")
    found = promote(trained / "second", tmp_path / "in_use", pl.concat([fresh, copies]))
    assert "3 of the 5 rows were learned from" in found.warning
    assert f"3 by the model in use, {tmp_path / 'in_use'}" in str(found)
    learned.write_csv(tmp_path / "dev.csv")
    refused = wiesel("promote", trained / "second", tmp_path / "in_use", tmp_path / "dev.csv")
    assert refused.exit_code == 1
    assert "rows were learned from" in refused.stderr


GOLD = ["technical", "billing"]


def test_promotions_that_cannot_be_are_explained(trained, wiesel, tmp_path):
    rows = trained / "test.csv"
    same = wiesel("promote", trained / "first", trained / "first", rows)
    assert "is the model in use already" in same.stderr
    (tmp_path / "bare.csv").write_text("id,text\n1,hello\n")
    bare = wiesel("promote", trained / "first", tmp_path / "in_use", tmp_path / "bare.csv")
    assert "no column 'label' of gold labels" in bare.stderr
    odd = wiesel("promote", trained / "first", tmp_path / "in_use", rows, "--metric", "auc")
    assert "'accuracy', 'macro_f1'" in odd.stderr
