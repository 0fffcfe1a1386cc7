"""`wiesel prompts`: lists the pre-made prompts, shows one, or copies it to be changed."""

from pathlib import Path
from typing import Annotated

import typer

from wiesel.cli.verb import Answer, command_line, verb
from wiesel.errors import DataError

__all__ = ["prompts"]


@verb
def prompts(
    name: Annotated[str | None, typer.Argument(help="Show this prompt.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Copy it to this .toml file, to change.")
    ] = None,
) -> Answer:
    """List the pre-made prompts, show one, or copy it."""
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
        return Answer({"prompts": data}, shown, "wiesel prompts NAME -o my_prompt.toml")
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
