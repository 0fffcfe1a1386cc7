"""The way in: from a file of texts to a project, by questions on the page."""

from functools import partial
from pathlib import Path
from typing import Any

from nicegui import ui

from wiesel.errors import ParameterError, WieselError, message_for
from wiesel.project.seen import code_files
from wiesel.project.settings import Project, in_project_words, read_project
from wiesel.project.starter import RowsSketch, project_of, sketch_rows, tables_in, write_project
from wiesel.workbench.desk import Desk, work
from wiesel.workbench.layout import card, plain_frame, table
from wiesel.workbench.texts import cut, shown, words

__all__ = ["Entrance", "EntrancePage"]

_LISTED = 30
_SHARES = 20
"""With more classes, there is no field for how common each is."""
_NO = ""
_HERE = (
    "Everything stays on this machine: the page is served from it, and nothing is sent anywhere."
)


class Entrance:
    """What the server opens: a project, or a place where one will be made."""

    def __init__(self, place: Project | Path) -> None:
        self.desk: Desk | None = None
        self.place = Path()
        self.file: Path | None = None
        """The table that was named."""
        if isinstance(place, Project):
            self.desk = Desk.open(place)
        elif place.is_dir():
            self.place = place
            tables = tables_in(place)
            self.file = tables[0] if len(tables) == 1 else None
        else:
            self.place, self.file = place.parent, place

    def open(self, project: Path) -> bool:
        """Open a project that runs no code of its own."""
        settings = read_project(project)
        if code_files(settings):
            raise ParameterError(
                f"{settings.folder} runs Python code with all your rights. Open it yourself: "
                f"wiesel workbench {settings.folder}"
            )
        if self.desk is None:
            self.desk = Desk.open(settings)
            self.desk.warm_up()
        return True


class EntrancePage:
    """Choose a file, answer four questions, and the project is there."""

    def __init__(self, entrance: Entrance) -> None:
        self.entrance = entrance
        self.sketch: RowsSketch | None = None

    def build(self) -> None:
        """Show the page."""
        with plain_frame("New project"):
            with card("From a file of texts to a classifier"):
                words(
                    "Choose a table with one text per row: CSV, TSV, Parquet or JSON lines. "
                    "It needs no labels.",
                    tag="p",
                ).style("margin: 0")
                words(_HERE, "w-faint")
                with ui.element("div").classes("w-row entrance-files"):
                    self._files()
                upload = ui.upload(on_upload=self._dropped, auto_upload=True, multiple=False)
                upload.props(
                    'flat bordered label="Drop a file here, or press +" '
                    'accept=".csv,.tsv,.jsonl,.ndjson,.parquet"'
                )
                upload.classes("entrance-drop").style("width: 100%")
            self.place = ui.element("div").classes("entrance-questions w-stack")
        if self.entrance.file is not None:
            ui.timer(0.01, partial(self.look, self.entrance.file), once=True)

    def _files(self) -> None:
        tables = tables_in(self.entrance.place)
        for file in tables[:_LISTED]:
            ui.button(cut(file.name, 60), on_click=partial(self.look, file)).props(
                "outline no-caps"
            )
        if len(tables) > _LISTED:
            words(f"and {len(tables) - _LISTED:,} more in {self.entrance.place}", "w-faint")

    async def _dropped(self, event: Any) -> None:
        """Keep a dropped file in the folder that the workbench was started in."""
        name = Path(str(event.file.name)).name
        target = self.entrance.place / name
        if not name or name.startswith(".") or target.exists():
            ui.notify(
                f"There is a file {name} in {self.entrance.place.resolve()} already: press its "
                "button, or rename yours."
                if name
                else "This file has no name.",
                type="negative",
            )
            return
        await event.file.save(target)
        await self.look(target)

    async def look(self, file: Path) -> None:
        """Read a file and ask what it holds; open its project if it has one."""
        self.place.clear()
        with self.place:
            words(f"Reading {shown(file.name)} …", "w-faint")
        made = await work(project_of, file, quiet=True)
        if made is not None and await work(self.entrance.open, made):
            ui.navigate.to("/")
            return
        found = await work(_sketch_or_problem, file)
        self.place.clear()
        if found is None:
            return
        with self.place:
            if isinstance(found, str):
                with card(shown(file.name)):
                    words(found, "w-bad", "entrance-problem", tag="p").style("margin: 0")
                return
            self.sketch = found
            self._questions(found)

    def _questions(self, sketch: RowsSketch) -> None:
        with card(f"{shown(sketch.file.name)}: {sketch.n_rows:,} rows"):
            _first_rows(sketch)
        with card("Four questions"), ui.element("div").classes("w-form"):
            self.text = ui.select(
                {name: cut(name, 60) for name in sketch.texts},
                value=sketch.texts[0],
                label="1. Which column holds the text?",
            )
            labels = {_NO: "none, or I do not want to use it"}
            labels |= {
                name: cut(f"{name}: {', '.join(list(values)[:4])}", 80)
                for name, values in sketch.classes.items()
            }
            self.label = ui.select(
                labels,
                value=sketch.label,
                label="2. Does a column hold labels of some rows?",
                on_change=self._from_column,
            )
            self.classes = ui.input(
                "3. What are the classes? Separate them by commas",
                placeholder="positive, negative",
                on_change=self._show_shares,
            ).classes("entrance-classes")
            for box in (self.text, self.label, self.classes):
                box.props('outlined dense options-dense debounce="200"')
            self.shares = ui.element("div").classes("w-stack entrance-shares")
            self.inputs: dict[str, ui.number] = {}
            with ui.element("div").classes("w-row"):
                button = ui.button("Make the project", on_click=self.make)
                button.props("unelevated no-caps").classes("entrance-make")
                self.note = words("", "w-bad", "entrance-problem")
        self._from_column()

    def _from_column(self) -> None:
        sketch = self.sketch
        if sketch is not None and self.label.value:
            self.classes.value = ", ".join(
                f'"{name}"' if "," in name else name for name in sketch.classes[self.label.value]
            )
        self._show_shares()

    def named_classes(self) -> list[str]:
        """Return the classes that are typed; a name with a comma is in quotes."""
        return named_classes(self.classes.value or "")

    def _show_shares(self) -> None:
        """Ask how common every class is; what was typed before stays."""
        names = self.named_classes()
        if list(self.inputs) == names:
            return
        before = {name: box.value for name, box in self.inputs.items()}
        self.inputs = {}
        self.shares.clear()
        if not 2 <= len(names) <= _SHARES:
            return
        with self.shares:
            words("4. About how common is each, in percent? Leave empty if you do not know.")
            with ui.element("div").classes("w-row"):
                for name in names:
                    box = ui.number(cut(name, 30), value=before.get(name), min=0, max=100)
                    box.props('outlined dense suffix="%"')
                    self.inputs[name] = box

    async def make(self) -> None:
        """Write the project and open it."""
        self.note.set_text("")
        problem = await work(self._make)
        if problem:
            self.note.set_text(problem)
        elif problem is not None:
            ui.navigate.to("/")

    def _make(self) -> str:
        sketch = self.sketch
        if sketch is None or self.entrance.desk is not None:
            return ""  # another tab has made it
        given = {name: float(box.value) for name, box in self.inputs.items() if box.value}
        try:
            made = write_project(
                sketch,
                str(self.text.value),
                self.named_classes(),
                label=self.label.value or "",
                shares=given,
            )
            self.entrance.open(made)
        except (WieselError, OSError) as error:
            return (
                message_for(error, in_project_words)
                if isinstance(error, WieselError)
                else str(error)
            )
        return ""


def named_classes(text: str) -> list[str]:
    """Return the names in a list with commas; a name with a comma in it is in quotes.

    >>> named_classes('ham,  spam , "yes, no"')
    ['ham', 'spam', 'yes, no']
    """
    import csv

    fields = next(csv.reader([text.replace("\n", ",")], skipinitialspace=True), [])
    return list(dict.fromkeys(name.strip() for name in fields if name.strip()))


def _sketch_or_problem(file: Path) -> RowsSketch | str:
    try:
        return sketch_rows(file)
    except (WieselError, OSError) as error:
        return str(error)


def _first_rows(sketch: RowsSketch) -> None:
    columns = sketch.head.columns[:6]
    with table(*((cut(name, 30), False) for name in columns)):
        for row in sketch.head.select(columns).rows():
            with ui.element("tr"):
                for value in row:
                    words("" if value is None else cut(value, 120), tag="td").props('dir="auto"')
    if len(sketch.head.columns) > len(columns):
        words(f"and {len(sketch.head.columns) - len(columns):,} more columns", "w-faint")
