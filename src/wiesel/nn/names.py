"""End models by name, for the command line, project files and comparisons."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from wiesel.errors import FeatureError, MissingExtraError, ParameterError, suggest
from wiesel.lfs.loading import load_module
from wiesel.nn.end_models import CNN, LSTM, MLP, Linear

__all__ = ["END_MODELS", "end_model_by_name"]

END_MODELS = {
    "mlp": "a perceptron with hidden layers of 50, 50 and 25, as in the paper",
    "linear": "logistic regression",
    "lstm": "a bidirectional LSTM on token ids",
    "cnn": "a small convolutional network on images",
    "transformer:PATH": "a Hugging Face model in a local folder (extra `transformers`)",
    "module:FILE.py:CLASS": "a module of your own",
}
"""How end models are named, and what the names stand for."""


def end_model_by_name(
    name: str, X: Any, n_classes: int, *, seed: int = 0, options: Mapping[str, Any] | None = None
) -> nn.Module:
    """Return an untrained end model that fits the inputs; the same seed gives the same weights.

    `options` are further arguments of the module, such as `hidden=[20]`. A class of your own is
    called with those of `n_features` and `n_classes` that it takes, and with the options.

    >>> end_model_by_name("linear", np.zeros((4, 300)), 2)
    Linear(
      (layer): Linear(in_features=300, out_features=2, bias=True)
    )
    >>> end_model_by_name("mpl", np.zeros((4, 300)), 2)
    Traceback (most recent call last):
    wiesel.errors.ParameterError: There is no end model 'mpl'. Did you mean 'mlp'?
    """
    kind, _, place = name.partition(":")
    makers: dict[str, Callable[..., nn.Module]] = {
        "mlp": MLP,
        "linear": Linear,
        "lstm": LSTM,
        "cnn": CNN,
        "transformer": _transformer,
        "module": nn.Module,
    }
    if kind not in makers or bool(place) != (kind in ("transformer", "module")):
        raise ParameterError(f"There is no end model {name!r}. {suggest(name, END_MODELS)}")
    make, arguments = makers[kind], _arguments(kind, X, n_classes)
    if kind == "transformer":
        arguments["path"] = place
    if kind == "module":
        make, arguments = _own_class(place, arguments)
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        return _made(name, make, {**arguments, **(options or {})})


def _transformer(path: str, n_classes: int) -> nn.Module:
    """A sequence classifier from a local folder: nothing is downloaded, no code of it is run."""
    try:
        from transformers import AutoModelForSequenceClassification
    except ImportError:
        raise MissingExtraError(
            "A transformer as end model needs an extra: pip install 'wiesel[transformers]'"
        ) from None
    if not (Path(path) / "config.json").is_file():
        raise ParameterError(f"{path} is no folder of a Hugging Face model: it has no config.json.")
    network: nn.Module = AutoModelForSequenceClassification.from_pretrained(
        path,
        num_labels=n_classes,
        local_files_only=True,
        use_safetensors=True,
        # A folder that was trained on other classes lends its body; the head starts anew.
        ignore_mismatched_sizes=True,
    )
    return network


def _arguments(kind: str, X: Any, n_classes: int) -> dict[str, Any]:
    """What a module must know about the inputs, by the names its constructor uses."""
    if kind == "transformer" or not hasattr(X, "shape"):
        return {"n_classes": n_classes}
    wanted = {"mlp": 2, "linear": 2, "lstm": 2, "cnn": 4}.get(kind, len(X.shape))
    if len(X.shape) != wanted:
        raise FeatureError(
            f"The end model {kind!r} reads inputs of {wanted} dimensions, items first; "
            f"these have the shape {tuple(X.shape)}."
        )
    if kind == "lstm":
        return {"vocabulary": int(np.max(X, initial=0)) + 1, "n_classes": n_classes}
    size = "channels" if kind == "cnn" else "n_features"
    return {size: int(X.shape[1]), "n_classes": n_classes}


def _own_class(place: str, arguments: dict[str, Any]) -> tuple[Callable[..., nn.Module], Any]:
    """The user's class and those of the arguments that it takes."""
    file, _, name = place.rpartition(":")
    if not file or not Path(file).is_file():
        raise ParameterError(
            f"An end model of your own is named module:FILE.py:CLASS; there is no file {file!r}."
        )
    module = load_module(Path(file))
    found = getattr(module, name, None)
    if not callable(found):
        classes = [key for key, value in vars(module).items() if inspect.isclass(value)]
        raise ParameterError(f"{file} has no class {name!r}. {suggest(name, classes)}")
    taken = inspect.signature(found).parameters
    return found, {key: value for key, value in arguments.items() if key in taken}


def _made(name: str, make: Callable[..., Any], arguments: dict[str, Any]) -> nn.Module:
    try:
        made = make(**arguments)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ParameterError(
            f"The end model {name!r} cannot be made with {arguments}: {error}"
        ) from error
    if not isinstance(made, nn.Module):
        raise ParameterError(f"The end model {name!r} is no torch.nn.Module: {made!r:.80}.")
    return made
