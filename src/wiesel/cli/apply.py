"""`wiesel apply`: rows in, votes out."""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wiesel.cli.lf_options import (
    AllowedHosts,
    AllowedKeys,
    IdColumn,
    LabelNames,
    LFFiles,
    classes_of,
)
from wiesel.cli.verb import Answer, command_line, split_names, tell, verb

if TYPE_CHECKING:
    from wiesel.lfs import RayEngine

__all__ = ["apply"]


@verb
def apply(  # noqa: PLR0913 - the options of the command line
    data: Annotated[Path, typer.Argument(help="Parquet, CSV, TSV or JSONL; or a 'pattern*.csv'.")],
    lfs: LFFiles,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to put the votes.")] = Path(
        "votes.parquet"
    ),
    labels: LabelNames = None,
    id_column: IdColumn = None,
    cache: Annotated[
        Path | None, typer.Option(help="Keep votes here; only what changed is run again.")
    ] = None,
    on_error: Annotated[
        Literal["raise", "abstain"], typer.Option(help="When a labeling function raises.")
    ] = "raise",
    engine: Annotated[
        str, typer.Option(help="local; ray; or ray:ADDRESS, a cluster that is running.")
    ] = "local",
    allow_host: AllowedHosts = None,
    allow_key: AllowedKeys = None,
) -> Answer:
    """Run labeling functions and write their votes."""
    from wiesel.analysis import summarize
    from wiesel.io import write_votes
    from wiesel.lfs import Access, VoteCache, apply_lfs, load_lfs

    loaded = load_lfs(*lfs, access=Access.of_user(allow_host or (), allow_key or ()))
    space = classes_of(loaded, split_names(labels))
    kept = VoteCache.of(cache)
    with redirect_stdout(sys.stderr):  # what labeling functions and Ray print is not the answer
        votes = apply_lfs(
            loaded,
            data,
            labels=space,
            engine=_engine(engine),
            cache=kept,
            on_error=on_error,
            ids=id_column,
        )
    write_votes(votes, output)
    if kept is not None:
        tell(f"{kept.hits} of {kept.hits + kept.misses} parts were known already.")
    tell(f"Wrote {output}.")
    table = summarize(votes)
    result = {"output": output, "n_items": votes.n_items, "n_votes": votes.n_votes}
    result |= {"covered": float(votes.covered.mean()), "voters": table.to_records()}
    return Answer(result, table.to_text(), command_line("wiesel", "inspect", output))


def _engine(name: str) -> "str | RayEngine":
    """The engine by its name, with the address where one is given."""
    from wiesel.lfs import RayEngine

    kind, _, address = name.partition(":")
    return RayEngine(address=address) if kind == "ray" and address else name
