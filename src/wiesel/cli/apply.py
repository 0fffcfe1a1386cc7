"""`wiesel apply`: rows in, votes out."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from wiesel.cli.multilabel import apply_labels
from wiesel.cli.project_options import (
    AllowedHosts,
    AllowedKeys,
    IdColumn,
    LabelNames,
    LFFiles,
    Ordered,
    classes_of,
    label_space,
)
from wiesel.cli.prompts import prompts_before, tell_changes
from wiesel.cli.verb import Answer, command_line, split_names, tell, verb
from wiesel.errors import ParameterError
from wiesel.progress import listening

if TYPE_CHECKING:
    from wiesel.lfs import RayEngine
    from wiesel.lfs.spending import Spending

__all__ = [
    "BatchAnswers",
    "BatchRequests",
    "BudgetLimit",
    "DryRun",
    "Prices",
    "apply",
    "counted",
    "planned",
]

_FIRST_REPORT = 5.0
"""Seconds after which the number of finished files is shown for the first time."""
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Send nothing: show the requests of prompts and their price."),
]
BudgetLimit = Annotated[
    str | None,
    typer.Option(
        "--budget",
        help="Stop prompts here: 2.50, '500 requests' or '200000 tokens'. The same command with "
        "more continues.",
    ),
]
Prices = Annotated[
    Path | None,
    typer.Option(help="A price table; else WIESEL_PRICES or prices.toml.", show_default=False),
]
BatchRequests = Annotated[
    Path | None,
    typer.Option(help="Send nothing: write open questions as batch file, here (.jsonl)."),
]
BatchAnswers = Annotated[
    list[Path] | None, typer.Option(help="A batch file with answers to use; repeatable.")
]


@verb
def apply(  # noqa: PLR0913 - the options of the command line
    data: Annotated[
        Path, typer.Argument(help="Parquet, CSV, TSV, JSONL; a folder or 'pattern*.csv'.")
    ],
    lfs: LFFiles,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="A file of votes, or a folder: one for each file."),
    ] = Path("votes.parquet"),
    labels: LabelNames = None,
    ordered: Ordered = False,
    id_column: IdColumn = None,
    cache: Annotated[
        Path | None, typer.Option(help="Keep votes here; only what changed is run again.")
    ] = None,
    on_error: Annotated[
        Literal["raise", "abstain"], typer.Option(help="What to do if a labeling function raises.")
    ] = "raise",
    engine: Annotated[
        str,
        typer.Option(
            help="local; isolated, which survives crashes; ray; or ray:ADDRESS, a cluster."
        ),
    ] = "local",
    timeout: Annotated[
        float | None,
        typer.Option(
            help="Seconds for a batch of rows, after which a labeling function that never ends "
            "is stopped. Be generous."
        ),
    ] = None,
    allow_host: AllowedHosts = None,
    allow_key: AllowedKeys = None,
    multi: Annotated[
        bool, typer.Option("--multi", help="An item may have several of the labels, or none.")
    ] = False,
    dry_run: DryRun = False,
    budget: BudgetLimit = None,
    prices: Prices = None,
    batch_requests: BatchRequests = None,
    batch_answers: BatchAnswers = None,
) -> Answer:
    """Run labeling functions and write their votes."""
    from wiesel.analysis import summarize
    from wiesel.io import write_votes
    from wiesel.io.rows import matching_files, refuse_overwriting
    from wiesel.io.vote_files import check_votes_target
    from wiesel.lfs import (
        Access,
        VoteCache,
        apply_lfs,
        load_lfs,
        prompt_records,
        read_batch_answers,
    )

    access = Access.of_user(allow_host or (), allow_key or ())
    how: dict[str, Any] = {"engine": _engine(engine), "on_error": on_error, "ids": id_column}
    how["timeout"] = timeout
    matching_files(data)  # a misspelled name is found before the functions are loaded
    refuse_overwriting([data], output)
    if multi:
        _refuse_plans(dry_run, batch_requests, batch_answers)
        with redirect_stdout(sys.stderr), counted(budget, prices):
            return apply_labels(data, lfs, output, split_names(labels), access, cache=cache, **how)
    loaded = load_lfs(*lfs, access=access)
    space = classes_of(loaded, label_space(labels, ordered))
    if batch_answers:
        tell(str(read_batch_answers(loaded, data, *batch_answers)))
    if dry_run or batch_requests is not None:
        words: list[object] = [word for path in lfs for word in ("--lfs", path)]
        words += ["--labels", labels] if labels else []
        words += ["--ordered"] if ordered else []
        words += ["--id", id_column] if id_column else []
        step = command_line("wiesel", "apply", data, *words, "-o", output)
        return planned(loaded, data, prices, batch_requests, step)
    if not output.suffix:
        _refuse_cache(cache)
        with counted(budget, prices):
            return _into_folder(loaded, data, output, space, how)
    check_votes_target(output)
    kept = VoteCache.of(cache)
    # What labeling functions and Ray print is not the answer.
    with redirect_stdout(sys.stderr), counted(budget, prices) as spent:
        votes = apply_lfs(loaded, data, labels=space, cache=kept, **how)
    sources, earlier = prompt_records(loaded, data, spent.prices), prompts_before(output)
    write_votes(votes, output, sources=sources)
    if kept is not None:
        tell(f"{kept.hits} of {kept.hits + kept.misses} parts were in the cache.")
    tell(f"Wrote {output}.")
    tell_changes(earlier, votes, sources)
    table = summarize(votes)
    result = {"output": output, "n_items": votes.n_items, "n_votes": votes.n_votes}
    result |= {"covered": float(votes.covered.mean()), "voters": table.to_records()}
    result |= {"spent": spent.to_dict()} if spent.requests or spent.cached else {}
    return Answer(result, table.to_text(), command_line("wiesel", "inspect", output))


def _into_folder(lfs: Any, data: Path, folder: Path, labels: Any, how: dict[str, Any]) -> Answer:
    """Write one file of votes per file of rows; finished files are skipped."""
    from wiesel.analysis import summarize
    from wiesel.analysis.summary import item_counts
    from wiesel.lfs import apply_lfs_to_folder

    with redirect_stdout(sys.stderr), listening(tell, after=_FIRST_REPORT):
        votes = apply_lfs_to_folder(lfs, data, folder, labels=labels, **how)
    tell(f"{folder} has {len(votes):,} files of votes.")
    table = summarize(votes)
    result = {"output": folder, "n_items": votes.n_items, "n_files": len(votes)}
    result["n_votes"] = int(table.frame["votes"].sum())
    result["covered"] = item_counts(votes).covered / max(1, votes.n_items)
    result["voters"] = table.to_records()
    return Answer(result, table.to_text(), command_line("wiesel", "inspect", folder))


def _refuse_plans(*plans: object) -> None:
    if any(plans):
        raise ParameterError(
            "--dry-run and batch files are for tasks with one label per item: leave --multi out, "
            "and use the same functions one by one."
        )


def _refuse_cache(cache: Path | None) -> None:
    if cache is not None:
        raise ParameterError(
            "--cache is for a single file of votes. A folder of votes skips finished files by "
            "itself: leave --cache out, or give a file to --output."
        )


def _engine(name: str) -> "str | RayEngine":
    """Return the engine with a name, and with its address if one is given."""
    from wiesel.lfs import RayEngine

    kind, _, address = name.partition(":")
    return RayEngine(address=address) if kind == "ray" and address else name


@contextmanager
def counted(budget: str | None, prices: Path | None) -> "Iterator[Spending]":
    """Count what prompts use, show their progress, and say at the end what was spent."""
    from wiesel.lfs import PriceTable, spending

    with spending(budget, PriceTable.read(prices)) as spent:
        try:
            if sys.stderr.isatty():
                yield spent
            else:
                with listening(tell, after=_FIRST_REPORT):
                    yield spent
        finally:
            if spent.requests or spent.cached:
                tell(f"Prompts: {spent}.")


def planned(lfs: Any, data: Path, prices: Path | None, requests: Path | None, step: str) -> Answer:
    """Return what prompts would cost, and write their questions as batch files if asked to."""
    from wiesel.lfs import PriceTable, estimate_cost, write_batch_requests

    estimate = estimate_cost(lfs, data, prices=PriceTable.read(prices))
    if requests is None:
        return Answer(estimate.to_dict(), str(estimate), step)
    written = write_batch_requests(lfs, data, requests)
    lines = [f"Wrote {count:,} requests into {path}." for path, count in written.items()]
    lines += [] if written else ["There is no open question: nothing was written."]
    files = [{"file": path, "requests": count} for path, count in written.items()]
    words = [word for path in written for word in ("--batch-answers", f"answers-of-{path.name}")]
    result = {**estimate.to_dict(), "files": files}
    next_step = f"{step} {command_line(*words)}" if words else step
    return Answer(result, "\n".join([str(estimate), *lines]), next_step)
