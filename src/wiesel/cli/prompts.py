"""`wiesel prompts`, and what other verbs say about the prompts behind votes."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiesel.cli.verb import Answer, command_line, tell, verb
from wiesel.errors import DataError

if TYPE_CHECKING:
    from wiesel.votes import VoteMatrix

__all__ = ["describe_prompts", "prompts", "prompts_before", "tell_changes"]


@verb
def prompts(
    name: Annotated[str | None, typer.Argument(help="Show this prompt.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Copy it to this .toml file, to change.")
    ] = None,
) -> Answer:
    """List pre-made prompts, show or copy one."""
    import polars as pl

    from wiesel.analysis.table import Table, count, text
    from wiesel.io.files import write_text
    from wiesel.lfs import PromptFile

    if name is None:
        found = [PromptFile.read(each) for each in PromptFile.names()]
        data = [
            {"name": own.name, "version": own.version, "kind": own.kind, "purpose": own.purpose}
            for own in found
        ]
        columns = (text("name", "prompt"), count("version"), text("purpose", "what it asks for"))
        shown = Table(pl.DataFrame(data), columns).to_text()
        first = found[0].name
        step = command_line("wiesel", "prompts", first, "-o", f"my_{first}.toml")
        return Answer({"prompts": data}, shown, step)
    file = PromptFile.read(name)
    if output is None:
        step = command_line("wiesel", "prompts", name, "-o", f"my_{file.name}.toml")
        return Answer(
            {"name": file.name, "version": file.version, "text": file.text}, file.source, step
        )
    if output.suffix != ".toml":
        raise DataError(f"A prompt is a TOML file; give {output} the extension .toml.")
    if output.exists():
        raise DataError(f"{output} exists: give another name, so that no prompt is lost.")
    write_text(output, file.source)
    said = f"Wrote {output}. Name it in a rules file: prompt_file = {str(output)!r}"
    return Answer({"output": output}, said)


def describe_prompts(sources: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the prompts behind votes as text: model, version, parameters, answers and price."""
    lines = []
    for voter, record in sources.items():
        shown = _named(record.get("parameters"))
        lines.append(
            f"{voter}: asked {record.get('model')} on {record.get('server')}, prompt version "
            f"{record.get('prompt_version')}{f' ({shown})' if shown else ''}"
        )
        lines.append(f"  prompt: {str(record.get('template'))[:300]!r}")
        for name in ("prompt_file", "grade"):
            lines += [f"  {name.replace('_', ' ')}: {record[name]}"] if record.get(name) else []
        if "rows" in record:
            lines += _answer_lines(record)
    return "\n".join(lines)


def prompts_before(path: Path) -> "tuple[VoteMatrix, Mapping[str, Any]] | None":
    """Return the votes that a file has, and the prompts behind them, before it is replaced."""
    from wiesel.errors import WieselError
    from wiesel.io import read_votes
    from wiesel.io.vote_files import vote_note

    try:
        note = vote_note(path) if path.is_file() else None
        return None if note is None or not note.sources else (read_votes(path), note.sources)
    except (WieselError, OSError):
        return None  # it is replaced anyway


def tell_changes(
    before: "tuple[VoteMatrix, Mapping[str, Any]] | None",
    after: "VoteMatrix",
    sources: Mapping[str, Any],
) -> None:
    """Show votes before and after, side by side, if the prompt behind them has changed."""
    from wiesel.analysis import changed_votes

    if before is None or before[0].labels != after.labels:
        return
    known = before[1]
    changed = [
        voter
        for voter, record in sources.items()
        if voter in known and _identity(known[voter]) != _identity(record)
    ]
    if changed:
        versions = (
            f"{name} ({_version(known, name)} -> {_version(sources, name)})" for name in changed
        )
        tell(f"Changed since the file was written: {', '.join(versions)}.")
        tell(changed_votes(before[0], after.select(changed)).to_text())


def _identity(record: Mapping[str, Any]) -> tuple[Any, ...]:
    names = ("prompt_version", "model", "server", "parameters")
    return tuple(record.get(name) for name in names)


def _version(sources: Mapping[str, Any], voter: str) -> str:
    return f"{sources[voter].get('model')} {sources[voter].get('prompt_version')}"


def _answer_lines(record: Mapping[str, Any]) -> list[str]:
    counts = {name: record.get(name, 0) for name in ("rows", "votes", "abstentions", "unanswered")}
    lines = [f"  answers: {_named(counts)}"]
    for name in ("unreadable", "answered_by", "left_out"):
        if record.get(name):
            lines.append(f"  {name.replace('_', ' ')}: {_named(record[name])}")
    cost = record.get("cost")
    price = "price unknown" if cost is None else f"price {cost:,.4g}"
    used = f"{record.get('tokens_in', 0):,} tokens in, {record.get('tokens_out', 0):,} out"
    return [*lines, f"  used: {used}; {price}"]


def _named(values: Any) -> str:
    """Numbers with their names, as text."""
    if not isinstance(values, Mapping):
        return ""
    return ", ".join(f"{name} {value}" for name, value in values.items())
