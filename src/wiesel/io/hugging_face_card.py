"""The metadata of a data set for the Hub: column types, and a card in README.md."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from wiesel.errors import DataError
from wiesel.io.markdown import code_span
from wiesel.labels import LabelSpace

__all__ = ["card_text", "feature_types"]

_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"))


def feature_types(frame: pl.DataFrame, labels: LabelSpace) -> dict[str, Any]:
    """Return the column types in the notation of the package datasets.

    >>> feature_types(pl.DataFrame({"text": ["hi"], "label": [0]}), LabelSpace("ham", "spam"))
    {'text': {'dtype': 'string', '_type': 'Value'}, 'label': {'names': ['ham', 'spam'],
    '_type': 'ClassLabel'}}
    """
    return {
        name: {"names": list(labels), "_type": "ClassLabel"}
        if name == "label" and kind.is_integer()
        else _type_of(name, kind)
        for name, kind in frame.schema.items()
    }


def _type_of(name: str, kind: pl.DataType) -> dict[str, Any]:
    if isinstance(kind, (pl.List, pl.Array)):
        return {"feature": _type_of(name, kind.inner), "_type": "Sequence"}  # type: ignore[arg-type]
    return {"dtype": _plain_type(name, kind), "_type": "Value"}


def _plain_type(name: str, kind: pl.DataType) -> str:
    if kind in (pl.String, pl.Categorical) or isinstance(kind, pl.Enum):
        return "string"
    if kind.is_integer() or kind.is_float():
        return str(kind).lower()
    if kind == pl.Boolean:
        return "bool"
    if kind == pl.Null:
        return "null"
    raise DataError(f"The column {name!r} holds {kind}: make it text, numbers or lists of them.")


def card_text(
    frames: Mapping[str, pl.DataFrame],
    files: Mapping[str, str],
    labels: LabelSpace,
    title: str,
    description: str,
    license: str | None,
) -> str:
    """Return README.md: metadata for the Hub, and text for people."""
    first = next(iter(frames.values()))
    n_items = sum(map(len, frames.values()))
    size = next((name for limit, name in _SIZES if n_items < limit), "n>1M")
    lines = ["---", f"pretty_name: {_quoted(title)}"]
    lines += [f"license: {_quoted(license)}"] if license else []
    lines += ["task_categories:\n- text-classification"] if "text" in first.columns else []
    lines += ["tags:\n- weak-supervision", f"size_categories:\n- {size}"]
    lines += ["configs:\n- config_name: default\n  data_files:"]
    lines += [f"  - split: {name}\n    path: {files[name]}" for name in frames]
    lines += ["dataset_info:\n  features:", *_features(first, labels), "  splits:"]
    lines += [_split_size(name, frame) for name, frame in frames.items()]
    lines += ["---", "", f"# {title}", ""]
    lines += [description, ""] if description else []
    return "\n".join([*lines, *_sentences(frames, first, labels)]) + "\n"


def _split_size(name: str, frame: pl.DataFrame) -> str:
    # The Hub ignores all sizes if the number of bytes is missing.
    size = int(frame.estimated_size())
    return f"  - name: {name}\n    num_bytes: {size}\n    num_examples: {len(frame)}"


def _features(frame: pl.DataFrame, labels: LabelSpace) -> Iterator[str]:
    for name, kind in feature_types(frame, labels).items():
        yield f"  - name: {_quoted(name)}"
        if kind["_type"] == "ClassLabel":
            yield "    dtype:\n      class_label:\n        names:"
            yield from (f"          '{k}': {_quoted(each)}" for k, each in enumerate(labels))
        elif kind["_type"] == "Sequence":
            yield f"    sequence: {kind['feature'].get('dtype', 'null')}"
        else:
            yield f"    dtype: {kind['dtype']}"


def _sentences(
    frames: Mapping[str, pl.DataFrame], first: pl.DataFrame, labels: LabelSpace
) -> Iterator[str]:
    sizes = ", ".join(f"{len(frame):,} in {code_span(name)}" for name, frame in frames.items())
    yield f"Rows: {sizes}. Classes, in order: {', '.join(map(code_span, labels))}."
    if "soft_label" in first.columns:
        yield ""
        yield (
            "`soft_label` has the probability of every class, in that order, as Wiesel estimated "
            "it from votes (of labeling functions, annotators or models); `label` is the most "
            "probable class. Nobody has checked the labels by hand."
        )


def _quoted(text: str) -> str:
    """A string that is the same in JSON and in YAML."""
    return json.dumps(text, ensure_ascii=False)
