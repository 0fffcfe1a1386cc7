"""`wiesel try`: the votes of labeling functions on a few rows."""

from pathlib import Path
from typing import Annotated

import typer

from wiesel.cli.lf_options import AllowedHosts, AllowedKeys, LFFiles
from wiesel.cli.verb import Answer, command_line, verb

__all__ = ["trial"]


@verb
def trial(
    data: Annotated[Path, typer.Argument(help="Parquet, CSV, TSV or JSONL.")],
    lfs: LFFiles,
    n: Annotated[int, typer.Option("-n", min=1, help="How many rows.")] = 10,
    allow_host: AllowedHosts = None,
    allow_key: AllowedKeys = None,
) -> Answer:
    """Show how labeling functions vote on a few rows."""
    from wiesel.lfs import Access, load_lfs, try_lfs

    access = Access.of_user(allow_host or (), allow_key or ())
    tried = try_lfs(load_lfs(*lfs, access=access), data, n=n)
    files = [word for file in lfs for word in ("--lfs", file)]
    step = command_line("wiesel", "apply", data, *files, "-o", "votes.parquet")
    return Answer({"lfs": tried.lfs, "rows": [row.to_dict() for row in tried]}, tried, step)
