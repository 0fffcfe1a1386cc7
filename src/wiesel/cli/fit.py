"""`wiesel fit`: fit one method on votes in a file, with features from another file if needed."""

from pathlib import Path
from typing import Annotated, Any

import typer

from wiesel.cli.annotation_files import VotePlace, is_many, votes_in
from wiesel.cli.multilabel import fit_labels
from wiesel.cli.project_options import (
    IdColumn,
    LabelNames,
    Ordered,
    end_model_name,
    label_space,
    method_name,
)
from wiesel.cli.verb import Answer, command_line, given_options, split_names, tell, verb
from wiesel.errors import ParameterError

__all__ = ["fit_votes"]


@verb
def fit_votes(  # noqa: PLR0913 - the options of the command line
    method: Annotated[
        str, typer.Argument(help="A name of `wiesel methods`.", autocompletion=method_name)
    ],
    votes: VotePlace,
    output: Annotated[Path, typer.Option("-o", "--output", help="A folder for the model.")],
    features: Annotated[Path | None, typer.Option(help="X.npy, one row for each item.")] = None,
    end_model: Annotated[
        str,
        typer.Option(
            help="A name as in wiesel.toml: mlp, linear, ...", autocompletion=end_model_name
        ),
    ] = "mlp",
    labels: LabelNames = None,
    ordered: Ordered = False,
    id_column: IdColumn = None,
    option: Annotated[
        list[str] | None, typer.Option(help="An option of the method, epochs=30; repeatable.")
    ] = None,
) -> Answer:
    """Fit one method on votes.

    Label models read votes in many files part by part, so the votes need not fit into memory.
    """
    from wiesel.catalog import method as registered
    from wiesel.multilabel.files import is_multilabel_votes

    found = registered(method)
    if is_multilabel_votes(votes):
        if found.needs != "votes" or features is not None:
            raise ParameterError(
                "On votes for several labels `wiesel fit` fits label models; networks are trained "
                "by wiesel run, with multi = true in wiesel.toml."
            )
        return fit_labels(method, votes, output, split_names(labels), _options(option or []))
    ballots = votes_in(votes, label_space(labels, ordered), id_column)
    options = _options(option or [])
    if features is None and found.needs == "votes":
        model: Any = found.cls(**options).fit(ballots)
    else:
        model = _end_to_end(method, ballots, features, end_model, options)
    if found.needs == "votes" and features is None:
        model.save(output)
    else:
        from wiesel.end_to_end.storage import save_end_to_end

        save_end_to_end(model, output)
    tell(f"Wrote {output}.")
    fitted = {"method": method, "output": output, "options": options}
    text = f"{type(model).__name__} fitted on {ballots.n_items:,} items of {votes}."
    if features is None:
        target = "soft_labels" if is_many(votes) else "soft_labels.csv"
        ids = given_options(id=id_column)
        step = command_line("wiesel", "soft-labels", output, votes, *ids, "-o", target)
    else:
        step = command_line("wiesel", "predict", output, features)
    return Answer(fitted, text, step)


def _end_to_end(
    method: str, votes: Any, features: Path | None, end_model: str, options: dict[str, Any]
) -> Any:
    if features is None:
        raise ParameterError(f"{method} also learns from features: add --features X.npy.")
    if method == "supervised":
        raise ParameterError("supervised learns from gold labels, not from votes: use wiesel run.")
    from wiesel.compare import build_method
    from wiesel.io.files import read_array
    from wiesel.nn.names import end_model_by_name
    from wiesel.votes import VoteMatrix

    if not isinstance(votes, VoteMatrix):
        votes = votes.read()  # votes are small compared with the features, which are in memory
    X = read_array(features)
    seed = options.get("seed", 0)
    network = end_model_by_name(end_model, X, votes.n_classes, seed=seed)
    return build_method(method, network, votes.labels, options).fit(X, votes)


def _options(given: list[str]) -> dict[str, Any]:
    """Parse `name=value` pairs; a value is TOML, or else text."""
    import tomllib

    options: dict[str, Any] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ParameterError(f"An option is given as name=value; got {pair!r}.")
        try:
            options[name.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            options[name.strip()] = value
    return options
