"""`wiesel spans ...`: labels on parts of texts, from span functions to a tagger."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from wiesel.cli.project_options import IdColumn, LFFiles
from wiesel.cli.verb import Answer, command_line, given_options, split_names, tell, verb
from wiesel.errors import DataError

if TYPE_CHECKING:
    from wiesel.spans import Documents, Span, TokenVotes

__all__ = ["predict_spans", "spans"]

Format = Literal["doccano", "label_studio", "conll", "docbin"]
Texts = Annotated[Path, typer.Argument(help="JSONL, CSV or Parquet with a column of texts.")]
Labels = Annotated[str, typer.Option("--labels", help="The labels of spans: PER,LOC.")]
TextColumn = Annotated[str, typer.Option("--text", help="The column of texts.")]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="Where to write the spans.")]
OutputFormat = Annotated[
    Format | None,
    typer.Option("--format", help="How to write the spans; else the extension decides."),
]
Page = Annotated[Path | None, typer.Option("--html", help="Write a page with marked texts.")]

_SHOWN = 5

spans = typer.Typer(
    help="Label spans of text.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@spans.command("apply")
@verb
def apply(  # noqa: PLR0913 - the options of the command line
    texts: Texts,
    lfs: LFFiles,
    labels: Labels,
    output: Output = None,
    output_format: OutputFormat = None,
    text_column: TextColumn = "text",
    id_column: IdColumn = None,
    page: Page = None,
) -> Answer:
    """Run span functions and combine their votes with a hidden Markov model."""
    from wiesel.io.rows import refuse_overwriting
    from wiesel.spans import HiddenMarkov, explain_spans, voter_table

    refuse_overwriting([texts], output, page)
    votes = _votes(texts, lfs, labels, text_column, id_column)
    found = HiddenMarkov().fit(votes).predict(votes)
    marked = explain_spans(votes, found)
    _write(votes.documents, found, output, output_format)
    if page is not None:
        _write_page(marked, page, texts.name)
    table = voter_table(votes)
    n_spans = sum(map(len, found))
    text = "\n".join([table.to_text(), "", *map(str, marked[:_SHOWN])])
    result = {
        "n_documents": len(found),
        "n_spans": n_spans,
        "voters": table.to_records(),
        "output": output,
    }
    options = given_options(
        lfs=lfs, labels=labels, id=id_column, text=_other_than_text(text_column)
    )
    step = command_line("wiesel", "spans", "fit", texts, *options, "-o", "tagger")
    return Answer(result, text, step)


@spans.command("fit")
@verb
def fit_tagger(  # noqa: PLR0913 - the options of the command line
    texts: Texts,
    lfs: LFFiles,
    labels: Labels,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder of the tagger.")],
    method: Annotated[
        Literal["two_stage", "weasel"], typer.Option(help="How to train the tagger.")
    ] = "two_stage",
    text_column: TextColumn = "text",
    id_column: IdColumn = None,
    epochs: Annotated[int | None, typer.Option(help="How long to train.")] = None,
    seed: Annotated[int, typer.Option(help="The seed of all random numbers.")] = 0,
) -> Answer:
    """Train a tagger on the votes of span functions and save it."""
    from wiesel.end_to_end import EndToEndModel, TwoStage, WeaSEL
    from wiesel.nn.names import end_model_by_name
    from wiesel.project.settings import SPAN_END_MODEL
    from wiesel.spans import HiddenMarkov

    votes = _votes(texts, lfs, labels, text_column, id_column)
    network = end_model_by_name(SPAN_END_MODEL, None, len(votes.labels.tags), seed=seed)
    how: dict[str, Any] = {"epochs": epochs, "seed": seed}
    model: EndToEndModel = WeaSEL(network, **how)
    if method == "two_stage":
        model = TwoStage(HiddenMarkov(), network, **how)
    model.fit(votes.documents, votes).save(output)
    last = model.history_.records[-1]["loss_end_model"]
    n_epochs = len(model.history_)
    text = f"Trained on {votes.documents!r} for {n_epochs} epochs; the last loss was {last:.4f}."
    tell(f"Wrote {output}.")
    options = given_options(id=id_column, text=_other_than_text(text_column))
    step = command_line("wiesel", "spans", "predict", output, texts, *options)
    return Answer({"output": output, "n_tokens": votes.documents.n_tokens}, text, step)


@spans.command("predict")
@verb
def predict(
    model: Annotated[Path, typer.Argument(help="The folder of a tagger.")],
    texts: Texts,
    output: Output = None,
    output_format: OutputFormat = None,
    text_column: TextColumn = "text",
    id_column: IdColumn = None,
) -> Answer:
    """Find the spans of texts with a trained tagger."""
    return predict_spans(model, texts, output, output_format, text_column, id_column)


def predict_spans(
    model: Path,
    texts: Path,
    output: Path | None = None,
    output_format: str | None = None,
    text_column: str = "text",
    id_column: str | None = None,
) -> Answer:
    """Find the spans of texts with a trained tagger, and write or show them."""
    from wiesel.io.rows import refuse_overwriting
    from wiesel.project.spans import load_tagger

    refuse_overwriting([texts], output)
    fitted = load_tagger(model)
    documents = _documents(texts, text_column, id_column)
    found = fitted.predict(documents)
    _write(documents, found, output, output_format)
    rows = [
        {"id": document.id, "spans": [span._asdict() for span in own]}
        for document, own in zip(documents, found, strict=True)
    ]
    lines = [_line(document, own) for document, own in zip(documents, found, strict=True)][:_SHOWN]
    if output is None and len(found) > _SHOWN:
        lines.append(f"{len(found) - _SHOWN:,} more: write all of them with -o FILE")
    n_spans = sum(map(len, found))
    text = "\n".join([f"{n_spans:,} spans in {len(found):,} documents.", *lines])
    step = command_line("wiesel", "evaluate", model, "GOLD")
    return Answer({"n_spans": n_spans, "predictions": rows if output is None else []}, text, step)


@spans.command("evaluate")
@verb
def evaluate(
    gold: Annotated[Path, typer.Argument(help="Gold spans: .jsonl (doccano) or .conll.")],
    predicted: Annotated[Path, typer.Argument(help="Predicted spans of the same texts.")],
) -> Answer:
    """Compare spans with gold ones: precision, recall and F1, exact and overlapping."""
    from wiesel.spans import evaluate_spans, read_annotated

    documents, wanted = read_annotated(gold)
    others, found = read_annotated(predicted, predictions=True)
    labels = list(dict.fromkeys(s.label for own in (*wanted, *found) for s in own))
    if not labels:
        raise DataError(f"Neither {gold} nor {predicted} has a span.")
    if documents.texts != others.texts:
        moved = _moved(found, others, documents, labels)
        if moved is None:
            raise DataError(
                f"{gold} and {predicted} are not of the same texts, or the same words, in the "
                "same order."
            )
        found = moved
    report = evaluate_spans(wanted, found, documents, labels)
    return Answer(report.to_dict(), str(report))


def _moved(
    spans: "list[list[Span]]", source: "Documents", target: "Documents", labels: list[str]
) -> "list[list[Span]] | None":
    """Return the spans mapped to texts with the same words; CoNLL joins words by single spaces."""
    from wiesel.spans import SpanLabels

    # CoNLL files omit documents without words.
    words, wanted = ([own.words for own in each if len(own)] for each in (source, target))
    if words != wanted:
        return None
    space = SpanLabels(tuple(labels))
    return target.spans_of(source.tags_of(spans, space), space)


def _other_than_text(column: str) -> str | None:
    return None if column == "text" else column


def _documents(texts: Path, text_column: str, id_column: str | None) -> "Documents":
    from wiesel.spans import read_documents

    return read_documents(texts, text_column, id_column)


def _votes(
    texts: Path, lfs: Sequence[Path], labels: str, text_column: str, id_column: str | None
) -> "TokenVotes":
    from wiesel.spans import apply_span_lfs, load_span_lfs

    functions = load_span_lfs(*lfs)
    documents = _documents(texts, text_column, id_column)
    return apply_span_lfs(functions, documents, labels=split_names(labels) or [])


def _line(document: Any, own: Any) -> str:
    shown = ", ".join(
        f"{document.text[span.start : span.end]} ({span.label}, {100 * span.confidence:.0f} %)"
        for span in own
    )
    return f"{document.id}: {shown or 'no span'}"


def _write(documents: "Documents", found: Any, output: Path | None, how: str | None) -> None:
    if output is None:
        return
    from wiesel.saving import write_file
    from wiesel.spans.formats import annotated_content

    write_file(output, annotated_content(documents, found, output, how))
    tell(f"Wrote {output}.")


def _write_page(marked: Any, page: Path, title: str) -> None:
    from wiesel.saving import write_file
    from wiesel.spans import spans_page

    write_file(page, spans_page(marked, title).encode())
    tell(f"Wrote {page}.")
