"""Every option of every method: type, default, meaning and the paper's symbol."""

from collections.abc import Sequence

from wiesel.catalog import METHODS
from wiesel.end_to_end import EndToEndModel
from wiesel.end_to_end.committee import Committee
from wiesel.features import ImageFeatures, TabularFeatures, TextFeatures, TokenFeatures
from wiesel.label_models import LabelModel
from wiesel.multilabel import PerLabel
from wiesel.nn import GraphLayers
from wiesel.nn.encoders import EncoderLayers
from wiesel.parameters import Option, options_of
from wiesel.spans import HiddenMarkov

__all__ = ["options_page"]

INTRODUCTION = """\
# Options of the methods

Every option is an argument of the constructor, a key of `wiesel.toml` (`[training]` for the
shared ones, `[options.NAME]` for those of one method), and a name for `set_params` and
scikit-learn's grid search. An unknown name is an error with a
suggestion. *Symbol* is the option's symbol in [the formulas](../understand/methods.md); a dash
means that it has none.

"""
SHARED = """\
## Shared training options

All methods that train a network have these options. `Committee` passes them to its default members.

"""
SYMBOLS: dict[str, dict[str, str]] = {
    "WeaSEL": {
        "end_model": "$f$",
        "encoder": "$e$",
        "encoding": r"input of $e(\lambda, x)$",
        "activation": r"$\sigma$ in $\theta = \tau_2\,\sigma(\tau_1 e)$",
        "tau_1": r"$\tau_1$",
        "tau_2": r"$\tau_2$",
        "class_conditional": r"$\theta \in \mathbb{R}^{m \times C}$",
        "loss": "$L_e, L_f$",
        "class_balance": "$p_c$",
    },
    "TwoStage": {
        "end_model": "$f$",
        "label_model": "$q$",
        "loss": "$L$",
        "class_balance": "$p_c$",
    },
    "Supervised": {"end_model": "$f$", "labels": "$y$"},
    "Committee": {"end_model": "$f_k$", "members": "$k$", "class_balance": "$p_c$"},
    "DawidSkene": {"smoothing": r"prior counts of $\pi_j$"},
    "OneCoin": {"smoothing": r"prior counts of $a_j$"},
    "Snorkel": {"l2": r"$\ell_2$", "precision": r"start of $\mu$"},
    "WeightedVote": {"weights": r"$w_j$"},
    "DataProgramming": {"accuracy": r"start of $a_j$", "dependencies": "factors $E$"},
    "MACE": {"competence_prior": r"prior of $\theta_j$", "habit_prior": r"prior of $\xi_j$"},
    "FeatureEM": {"power": r"$\rho$"},
    "FeatureChecked": {"power": r"$\rho$"},
    "GoldWeighted": {"shrinkage": "$a$", "power": r"$\rho$"},
    "VoteCounts": {"log_odds": r"$\kappa$"},
    "MaxMIG": {"end_model": "$f$", "start": "start of $W_j$", "class_balance": "$p_c$"},
    "CrowdLayer": {"end_model": "$f$", "variant": r"$W_j$ (MW), $w_j$ (VW), $b_j$ (B)"},
    "ConfusionNet": {
        "end_model": "$f$",
        "structure": "$A_j$",
        "strength": r"$\lambda$",
        "initial_accuracy": "start of $A_j$",
    },
    "CoNAL": {"end_model": "$f$", "embedding": "length of $u_j$"},
    "Raykar": {"end_model": "$f$", "smoothing": r"prior of $\pi_j$"},
    "AggNet": {"end_model": "$f$", "smoothing": r"prior of $\pi_j$"},
    "MBEM": {"end_model": "$f$", "smoothing": r"prior of $\pi_j$"},
    "COINNet": {
        "end_model": "$f$",
        "volume": r"$\nu$",
        "outliers": r"$\mu$",
        "initial_accuracy": "start of $A_j$",
    },
    "AnnotMix": {"end_model": "$f$", "alpha": r"$\alpha$", "embedding": "length of $u_j$"},
    "ImplyLoss": {"end_model": "$f$", "gamma": r"$\gamma$"},
    "ASTRA": {"end_model": "$f$"},
    "DeepLogic": {"end_model": "$f$", "confidence": "start of $a_j$"},
    "DoctorNet": {"end_model": "$f$", "variant": r"$\alpha_j$"},
    "EncoderLayers": {"hidden": "$e$", "features": "$x$ in $e(\\lambda, x)$"},
    "GraphLayers": {"dependencies": "edges $N(j)$"},
    "HiddenMarkov": {
        "smoothing": r"prior counts of $\pi_j$",
        "transition_smoothing": "prior counts of $T$",
    },
}
"""The symbol of an option in docs/understand, by class."""
OTHERS: dict[str, tuple[type, ...]] = {
    "Several labels for one item": (PerLabel,),
    "Spans of text": (HiddenMarkov,),
    "Features": (TextFeatures, TabularFeatures, ImageFeatures, TokenFeatures),
}
"""Classes with options that are not in the registry of methods, by heading."""


def options_page() -> str:
    """Return the page."""
    shared = [each.name for each in options_of(EndToEndModel)]
    text = INTRODUCTION + _end_to_end(shared) + "## Label models\n\n" + _label_models()
    for heading, classes in OTHERS.items():
        text += f"## {heading}\n\n"
        for cls in classes:
            text += _section(cls, options_of(cls))
    return text


def _end_to_end(shared: list[str]) -> str:
    text = SHARED + _table(EndToEndModel, options_of(EndToEndModel)) + "## End-to-end methods\n\n"
    seen: set[type] = set()
    for method in METHODS.values():
        if issubclass(method.cls, EndToEndModel) and method.cls not in seen:
            seen.add(method.cls)
            own = [each for each in options_of(method.cls) if each.name not in shared]
            own += [each for each in options_of(method.cls) if _differs(method.cls, each)]
            text += _section(method.cls, own, method.summary)
    text += _section(EncoderLayers, options_of(EncoderLayers))
    return text + _section(GraphLayers, options_of(GraphLayers))


def _differs(cls: type, option: Option) -> bool:
    """Whether a shared option means something else in a class: the members of a committee do."""
    return cls is Committee and option.name == "members"


def _label_models() -> str:
    text = ""
    for method in METHODS.values():
        if issubclass(method.cls, LabelModel):
            text += _section(method.cls, options_of(method.cls), method.summary)
    return text


def _section(cls: type, options: Sequence[Option], summary: str = "") -> str:
    sentence = f"{summary[:1].upper()}{summary[1:].rstrip('.')}.\n\n" if summary else ""
    table = _table(cls, options) if options else "No options.\n\n"
    return f"### {cls.__name__}\n\n{sentence}{table}"


def _table(cls: type, options: Sequence[Option]) -> str:
    lines = ["| option | type | default | meaning | symbol |", "|---|---|---|---|---|"]
    symbols = SYMBOLS.get(cls.__name__, {})
    for option in options:
        kind = f"`{option.type.replace(' | ', ' or ')}`"
        default = "required" if option.default is None else f"`{_cell(option.default)}`"
        meaning, symbol = _cell(option.meaning), symbols.get(option.name, "-")
        lines.append(f"| `{option.name}` | {kind} | {default} | {meaning} | {symbol} |")
    return "\n".join(lines) + "\n\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
