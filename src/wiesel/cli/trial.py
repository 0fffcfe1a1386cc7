"""`wiesel try`: the votes of labeling functions on a few rows."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wiesel.cli.project_options import AllowedHosts, AllowedKeys, LFFiles
from wiesel.cli.verb import Answer, command_line, given_options, verb

if TYPE_CHECKING:
    from wiesel.lfs.apply import Trial
    from wiesel.lfs.loading import LoadedLFs

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
    loaded = load_lfs(*lfs, access=access)
    tried = try_lfs(loaded, data, n=n)
    options = given_options(
        lfs=lfs,
        labels=None if loaded.labels is not None else _classes(loaded, tried),
        allow_host=allow_host,
        allow_key=allow_key,
    )
    step = command_line("wiesel", "apply", data, *options, "-o", "votes.parquet")
    return Answer({"lfs": tried.lfs, "rows": [row.to_dict() for row in tried]}, tried, step)


def _classes(loaded: "LoadedLFs", tried: "Trial") -> str:
    """Return the classes that the rules name, or that were voted for; a word to fill in if one."""
    named = {name for lf in loaded for name in lf.classes or ()}
    voted = {str(vote) for row in tried for vote in row.votes.values() if isinstance(vote, str)}
    seen = sorted(named | voted)
    return ",".join(seen) if len(seen) > 1 else "CLASSES"
