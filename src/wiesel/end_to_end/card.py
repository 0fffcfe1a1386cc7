"""CARD.md: the model card of a saved model."""

from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from wiesel.io.markdown import code_block, code_span
from wiesel.version import __version__

if TYPE_CHECKING:
    from wiesel.end_to_end.base import EndToEndModel
    from wiesel.end_to_end.feature_reader import FeatureReader

__all__ = ["model_card"]

_NAMED = 5
"""The number of voters that a card names."""


def model_card(model: "EndToEndModel", reader: "FeatureReader | None" = None) -> str:
    """Return a short description of a fitted model in Markdown."""
    names = ", ".join(map(code_span, model.labels_))
    portable = copy(model)
    portable.checkpoint = None  # a place on the machine that trained it
    lines = [
        f"# {type(model).__name__} model",
        "",
        f"Predicts {model.task_.kind} of {names}. Trained by Wiesel {__version__} on "
        f"{_n_items(model)} items{_source(model)}.",
        "",
        f"- Kept weights: epoch {_epochs(model)} of {len(model.history_)} ({_selection(model)}).",
        f"- Decision threshold: {_threshold(model)}.",
        *_gold(model),
        "",
        "## Options",
        "",
        code_block(repr(portable)),
        "",
        "## Use it",
        "",
        "```python",
        "from wiesel import load_model",
        "",
        'model = load_model("this-folder")  # end_model=net, if the network is your own',
        f"model.predict({_items(reader)})",
        "```",
        "",
    ]
    return "\n".join(lines)


def _n_items(model: "EndToEndModel") -> str:
    # Some models of earlier versions did not record it.
    known = model.trained_on_.get("items")
    return "an unknown number of" if known is None else f"{known:,}"


def _items(reader: "FeatureReader | None") -> str:
    """The inputs of the model, as an expression in the example code of the card."""
    if reader is None:
        return "X"
    return {"tabular": "table", "images": "pictures", "given": "X"}.get(reader.kind, "texts")


def _source(model: "EndToEndModel") -> str:
    if not model.voters_:
        return " with gold labels"
    named = ", ".join(map(code_span, model.voters_[:_NAMED]))
    more = f" and {len(model.voters_) - _NAMED:,} more" if len(model.voters_) > _NAMED else ""
    voters = f"{len(model.voters_):,} voters ({named}{more})"
    return f" and the votes of {voters}, without looking at their labels"


def _epochs(model: "EndToEndModel") -> str:
    kept = model.selection_["epoch"]
    # Every member of an ensemble has its own best epoch.
    return ", ".join(map(str, kept)) if isinstance(kept, list) else str(kept)


def _selection(model: "EndToEndModel") -> str:
    if "score" not in model.selection_:
        return "the last: there was no validation set"
    return f"best validation {model.selection_['by']}: {model.selection_['score']:.4f}"


def _gold(model: "EndToEndModel") -> list[str]:
    seen = model.selection_.get("trained_on_gold")
    if seen is None:
        return []
    sentence = f"The networks also learned from {seen['items']:,} gold labels"
    return [f"- {sentence}: evaluate the model on others."]


def _threshold(model: "EndToEndModel") -> str:
    if model.threshold_ is None:
        return "none, the most probable class is predicted"
    if np.ndim(model.threshold_):
        named = zip(model.labels_, model.threshold_, strict=True)
        return ", ".join(code_span(f"{name} {own:.4f}") for name, own in named)
    return f"{code_span(model.labels_.names[1])} from a probability of {model.threshold_:.4f}"
