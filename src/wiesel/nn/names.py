"""End models by name, for the command line, project files and comparisons."""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from wiesel.errors import (
    FeatureError,
    MissingExtraError,
    ParameterError,
    SavedModelError,
    suggest,
)
from wiesel.lfs.loading import load_module
from wiesel.nn.end_models import CNN, LSTM, MLP, Linear, shipped_module, shipped_spec
from wiesel.nn.stacking import seeded
from wiesel.nn.taggers import BiLSTMTagger, LinearTagger

__all__ = [
    "END_MODELS",
    "STORED_ESTIMATORS",
    "check_end_model",
    "classifier_names",
    "end_model_by_name",
    "module_from_spec",
    "module_spec",
    "stored_class",
]

END_MODELS = {
    "mlp": "a perceptron with hidden layers of 50, 50 and 25, as in the paper",
    "linear": "logistic regression",
    "lstm": "a bidirectional LSTM on token ids",
    "cnn": "a small convolutional network on images",
    "tagger": "a bidirectional LSTM on the words of texts, for spans",
    "linear_tagger": "logistic regression on a word and those around it, for spans",
    "transformer:PATH": "a Hugging Face model in a local folder (extra `transformers`)",
    "sklearn:MODULE.CLASS": "a classifier of scikit-learn, for methods with a label model",
    "module:FILE.py:CLASS": "a module of your own",
}
"""The names of end models, and what they mean."""

_STAND_INS: dict[str, Any] = {
    "mlp": np.zeros((1, 2), np.float32),
    "linear": np.zeros((1, 2), np.float32),
    "lstm": np.zeros((1, 2), np.int64),
    "cnn": np.zeros((1, 3, 32, 32), np.float32),
    "tagger": None,
    "linear_tagger": None,
}
"""Inputs of minimal size, for each end model that can be made from its name alone."""
_WITH_PLACE = ("transformer", "sklearn", "module")
_TRANSFORMER = "transformer"
_LEFT_OUT = ("auto_map", "num_labels", "quantization_config", "transformers_version")
"""Settings that name code or do not describe the architecture."""
_LARGEST_SETTING = 2**24
"""The largest setting allowed; real layers, vocabularies and texts are far smaller."""
_LINEAR = ("classes_", "coef_", "intercept_")
STORED_ESTIMATORS = {
    "linear_model.LogisticRegression": _LINEAR,
    "linear_model.LogisticRegressionCV": _LINEAR,
    "linear_model.SGDClassifier": _LINEAR,
    "discriminant_analysis.LinearDiscriminantAnalysis": _LINEAR,
    "naive_bayes.GaussianNB": ("classes_", "class_prior_", "theta_", "var_"),
    "naive_bayes.BernoulliNB": ("classes_", "class_log_prior_", "feature_log_prob_"),
    "preprocessing.StandardScaler": ("mean_", "scale_", "var_"),
    "preprocessing.MinMaxScaler": ("min_", "scale_"),
}
"""The learned attributes of the estimators that can be stored: all that prediction needs."""


def end_model_by_name(
    name: str, X: Any, n_classes: int, *, seed: int = 0, options: Mapping[str, Any] | None = None
) -> Any:
    """Return an untrained end model that fits the inputs; the same seed gives the same weights.

    `options` are further arguments of the module, such as `hidden=[20]`. Your own class is called
    with the options and with `n_features` and `n_classes` if it accepts them. All end models are
    modules except scikit-learn classifiers such as `sklearn:linear_model.LogisticRegression`.

    >>> end_model_by_name("linear", np.zeros((4, 300)), 2)
    Linear(
      (layer): Linear(in_features=300, out_features=2, bias=True)
    )
    >>> end_model_by_name("mpl", np.zeros((4, 300)), 2)
    Traceback (most recent call last):
    wiesel.errors.ParameterError: There is no end model 'mpl'. Did you mean 'mlp'?
    """
    kind, place = _kind_and_place(name)
    if kind == "sklearn":
        return _classifier_by_name(place, seed, options or {})
    make, arguments = _maker(kind), _arguments(kind, X, n_classes)
    if kind == "transformer":
        arguments["path"] = place
    if kind == "module":
        make, arguments = _user_class(place, arguments)
    with seeded(seed):
        return _made(name, make, {**arguments, **(options or {})})


def check_end_model(name: str, options: Mapping[str, Any]) -> Any:
    """Refuse a name or options that are wrong for any inputs; return an example end model.

    For a user-defined module or a transformer, only its existence is checked: None is returned.

    >>> check_end_model("linear", {"bais": 1})
    Traceback (most recent call last):
    wiesel.errors.ParameterError: There is no option 'bais' of the end model 'linear'. ...
    """
    kind, place = _kind_and_place(name)
    if kind == "sklearn":
        return _classifier_by_name(place, 0, options)
    if kind == "transformer":
        return _checked_transformer_folder(place)
    if kind == "module":
        make, _ = _user_class(place, {})
        _check_arguments(name, make, options)
        return None
    return end_model_by_name(name, _STAND_INS[kind], 2, options=options)


def _kind_and_place(name: str) -> tuple[str, str]:
    kind, _, place = name.partition(":")
    known = (*_STAND_INS, *_WITH_PLACE)
    if kind not in known or bool(place) != (kind in _WITH_PLACE):
        raise ParameterError(f"There is no end model {name!r}. {_nearest(name)}")
    return kind, place


def _maker(kind: str) -> Callable[..., nn.Module]:
    makers: dict[str, Callable[..., nn.Module]] = {
        "mlp": MLP,
        "linear": Linear,
        "lstm": LSTM,
        "cnn": CNN,
        "tagger": BiLSTMTagger,
        "linear_tagger": LinearTagger,
        "transformer": _transformer,
    }
    return makers.get(kind, nn.Module)


def module_spec(module: nn.Module) -> dict[str, Any] | None:
    """Return how to rebuild a module from plain data; None for a user-defined module.

    >>> module_spec(Linear(3, 2))
    {'name': 'Linear', 'arguments': {'n_features': 3, 'n_classes': 2}}
    """
    return shipped_spec(module) or _transformer_spec(module)


def module_from_spec(spec: dict[str, Any]) -> nn.Module:
    """Return an untrained module from the result of `module_spec`."""
    if spec.get("name") != _TRANSFORMER:
        return shipped_module(spec)
    try:
        return _transformer_from_spec(spec["arguments"])
    except (SavedModelError, MissingExtraError):
        raise
    # Another package may raise anything for a wrong setting.
    except Exception as error:
        raise SavedModelError(
            f"The stored end model cannot be built again: {type(error).__name__}: {error}"
        ) from error


def stored_class(name: str) -> Any:
    """Return the scikit-learn estimator class with this name, one that is stored as data."""
    if name not in STORED_ESTIMATORS:
        raise SavedModelError(f"{name!r:.80} is not an estimator that can be stored as data.")
    module, _, cls = name.rpartition(".")
    return getattr(import_module(f"sklearn.{module}"), cls)


def classifier_names() -> list[str]:
    """Return the names that storable classifiers have in a project file.

    >>> classifier_names()[0]
    'sklearn:linear_model.LogisticRegression'
    """
    return [
        f"sklearn:{name}" for name, learned in STORED_ESTIMATORS.items() if "classes_" in learned
    ]


def _classifier_by_name(name: str, seed: int, options: Mapping[str, Any]) -> Any:
    """An unfitted scikit-learn classifier, such as `linear_model.LogisticRegression`.

    Only classifiers that can be saved as data have a name. Others are end models only in Python.
    """
    known = [each.removeprefix("sklearn:") for each in classifier_names()]
    if name not in known:
        raise ParameterError(
            f"There is no end model 'sklearn:{name}'. {suggest(name, known)} Others cannot be "
            "saved as data; use them in Python: TwoStage(label_model, classifier)."
        )
    classifier = stored_class(name)()
    allowed = classifier.get_params()
    for key in options:
        if key not in allowed:
            problem = f"{type(classifier).__name__} has no option {key!r}."
            raise ParameterError(f"{problem} {suggest(key, allowed)}", option=key)
    seeded = {"random_state": seed} if "random_state" in allowed else {}
    return classifier.set_params(**{**seeded, **options})


def _nearest(name: str) -> str:
    """The closest name, or the list of all names."""
    if name.startswith("sklearn"):
        return suggest(name, classifier_names())
    return suggest(name, END_MODELS)


def _arguments(kind: str, X: Any, n_classes: int) -> dict[str, Any]:
    """What a module must know about the inputs, by the names its constructor uses."""
    if kind in ("tagger", "linear_tagger"):
        return {"n_tags": n_classes}
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


def _user_class(place: str, arguments: dict[str, Any]) -> tuple[Callable[..., nn.Module], Any]:
    """The user's class and the arguments that it accepts."""
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


def _check_arguments(name: str, make: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    allowed = inspect.signature(make).parameters
    takes_any = any(each.kind is each.VAR_KEYWORD for each in allowed.values())
    for key in arguments:
        if key not in allowed and not takes_any:
            problem = f"There is no option {key!r} of the end model {name!r}."
            raise ParameterError(f"{problem} {suggest(key, allowed)}", option=key)


def _made(name: str, make: Callable[..., Any], arguments: dict[str, Any]) -> nn.Module:
    _check_arguments(name, make, arguments)
    try:
        made = make(**arguments)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ParameterError(
            f"The end model {name!r} cannot be made with {arguments}: {error}",
            option=_wrong_option(make, arguments),
        ) from error
    if not isinstance(made, nn.Module):
        raise ParameterError(f"The end model {name!r} is not a torch.nn.Module: {made!r:.80}.")
    return made


def _wrong_option(make: Callable[..., Any], arguments: dict[str, Any]) -> str:
    """The option without which the end model can be made; nothing if there is none."""
    for name in arguments:
        with suppress(TypeError, ValueError, RuntimeError):
            make(**{key: value for key, value in arguments.items() if key != name})
            return name
    return ""


def _checked_transformer_folder(path: str) -> None:
    _package("A transformer as end model needs an extra")
    if not (Path(path) / "config.json").is_file():
        raise ParameterError(f"{path} is not a Hugging Face model folder: it has no config.json.")


def _transformer(path: str, n_classes: int) -> nn.Module:
    """A sequence classifier from a local folder: nothing is downloaded, no code is run."""
    _checked_transformer_folder(path)
    transformers = _package("A transformer as end model needs an extra")
    try:
        with _quiet(transformers):
            network: nn.Module = transformers.AutoModelForSequenceClassification.from_pretrained(
                path,
                num_labels=n_classes,
                local_files_only=True,
                use_safetensors=True,
                # A model trained on other classes keeps its body; the head is initialized anew.
                ignore_mismatched_sizes=True,
            )
    except (OSError, ValueError, KeyError) as error:
        raise ParameterError(
            f"{path} cannot be read as a Hugging Face model with model.safetensors: {error}"
        ) from error
    return network


def _transformer_spec(module: nn.Module) -> dict[str, Any] | None:
    """How to rebuild a Hugging Face sequence classifier; None for any other module."""
    config: Any = getattr(module, "config", None)
    if not type(module).__module__.startswith("transformers.") or not hasattr(config, "to_dict"):
        return None
    transformers = _package("Saving a Hugging Face model needs an extra")
    known = transformers.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING
    if known.get(type(config), None) is not type(module):
        return None
    # JSON turns numeric keys, such as those of the classes, into text.
    settings: dict[str, Any] = json.loads(json.dumps(config.to_dict(), default=str))
    return {"name": _TRANSFORMER, "arguments": {"config": _plain(settings)}}


def _transformer_from_spec(arguments: dict[str, Any]) -> nn.Module:
    """An untrained network with the architecture that `_transformer_spec` describes.

    Only architectures of the installed package are allowed: a model brings no code.
    """
    transformers = _package("This model's end model is a Hugging Face network")
    settings = _plain(arguments["config"])
    _refuse_enormous(settings)
    kind = settings.pop("model_type", None)
    if kind not in transformers.CONFIG_MAPPING:
        raise SavedModelError(
            f"This version of transformers, {transformers.__version__}, has no architecture "
            f"{kind!r}, which this model's end model is of."
        )
    config = transformers.CONFIG_MAPPING[kind](**settings)
    # Other attention implementations may be downloaded by name.
    network: nn.Module = transformers.AutoModelForSequenceClassification.from_config(
        config, attn_implementation="eager", trust_remote_code=False
    )
    return network


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that describe the architecture."""
    return {
        name: value
        for name, value in settings.items()
        if not (name.startswith("_") or name in _LEFT_OUT or name.endswith("_implementation"))
    }


def _refuse_enormous(value: Any, name: str = "config") -> None:
    """Refuse huge numbers: a configuration makes lists of that length before any network."""
    if isinstance(value, int) and abs(value) > _LARGEST_SETTING:
        raise SavedModelError(f"The stored setting {name!r} of a transformer is {value!r:.40}.")
    if isinstance(value, (dict, list, tuple)):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            _refuse_enormous(part, str(key))


def _package(what: str) -> Any:
    try:
        import transformers
    except ImportError:
        raise MissingExtraError(f"{what}: pip install 'wiesel[transformers]'") from None
    return transformers


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Hide the progress bar: reading a local folder takes only a moment."""
    logging = transformers.utils.logging
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
