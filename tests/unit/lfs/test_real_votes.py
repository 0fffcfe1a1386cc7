"""The votes of five published data sets, made again from their rules and texts by our builders."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from wiesel import apply_lfs, keywords, regex
from wiesel.lfs import LabelingFunction

SETS = ["imdb_136", "sms", "trec", "agnews", "sst2"]
# Of the training splits, which are several times larger, the first thousand rows are enough.
SPLITS = ["valid", "test"]

LOWER = pl.col("text").str.to_lowercase()
# The cleaning that the card of imdb_136 describes: some signs are dropped, some become spaces.
CLEAN = (
    LOWER.str.replace_all(r"""[.;:!'?,"()\[\]]""", "")
    .str.replace_all(r"(<br\s*/><br\s*/>)|-|/", " ")
    .str.normalize("NFKD")
    .str.replace_all(r"[^\x00-\x7F]", "")
)
# Pairs of words are taken after stop words are gone: scikit-learn's list without the words that
# the authors keep because sentiment may hang on them, and with "did".
MEANINGFUL = (
    "another cannot cant couldnt cry elsewhere except fire five four hasnt interest least less "
    "neither never nine no nobody none noone nor not nothing nowhere one rather serious should ten "
    "three too two"
)
STOP_WORDS = sorted({*ENGLISH_STOP_WORDS, "did"} - set(MEANINGFUL.split()))
WITHOUT_STOP_WORDS = (
    CLEAN.str.extract_all(r"\b\w\w+\b")
    .list.eval(pl.element().filter(~pl.element().is_in(STOP_WORDS)))
    .list.join(" ")
)
COLUMNS = {
    "words": CLEAN,
    "pairs": WITHOUT_STOP_WORDS,
    "lower": LOWER,
    "letters": LOWER.str.replace_all("[^a-z]", " "),
}


def our_function(name: str, rule: dict[str, Any], label: str) -> LabelingFunction:
    if "regex" in rule:
        return regex(label, rule["regex"], column="lower")
    if "any_substring" in rule:
        column = "letters" if name == "sst2" else "lower"
        return keywords(label, rule["any_substring"], column=column, whole_words=False)
    column = "pairs" if " " in rule["ngram"] else "words"
    return keywords(label, [rule["ngram"]], column=column)


def check_votes(folder: Path, rows: pl.DataFrame) -> int:
    """Compare our votes with the stored ones; return how many were stored."""
    rules = json.loads((folder / "lfs.json").read_text())
    classes = json.loads((folder / "card.json").read_text())["classes"]
    lfs = [our_function(folder.name, rule, classes[rule["class"]]) for rule in rules]
    read = {column for lf in lfs for column in lf.reads}
    texts = rows.select(COLUMNS[column].alias(column) for column in sorted(read))
    ours = apply_lfs(lfs, texts, labels=classes)
    stored = rows.select(pl.col("^lf_.*$")).to_numpy()
    assert ours.dense().shape == stored.shape
    different = np.argwhere(ours.dense() != stored)
    assert different.tolist() == []
    return int((stored >= 0).sum())


@pytest.mark.data
@pytest.mark.parametrize("name", SETS)
def test_a_thousand_rows_get_exactly_the_published_votes(name: str, data_folder: Path) -> None:
    rows = pl.scan_parquet(data_folder / name / "train.parquet").head(1_000).collect()
    assert check_votes(data_folder / name, rows) > 400


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", SETS)
def test_every_row_gets_exactly_the_published_votes(
    name: str, split: str, data_folder: Path
) -> None:
    rows = pl.read_parquet(data_folder / name / f"{split}.parquet")
    assert check_votes(data_folder / name, rows) > 200
