"""Creates labeling functions: from marked words to proposals, each with a preview."""

from collections.abc import Callable
from typing import Any

from nicegui import ui

from wiesel.errors import WieselError, listed
from wiesel.guidance import LFPreview, lfs_from_selection
from wiesel.guidance.lf_preview import RuleEffect
from wiesel.guidance.suggesting import rule_words
from wiesel.lfs.apply import matched_spans
from wiesel.lfs.function import LabelRule
from wiesel.lfs.text_rules import Regex, keywords, regex
from wiesel.threads import map_in_threads
from wiesel.workbench.desk import Desk, work
from wiesel.workbench.layout import table
from wiesel.workbench.texts import cut, marked, percent, words

__all__ = ["LFMaker", "preview_figures", "preview_hits"]

_HITS = 5
_AROUND = 120
_TOGGLED = 9
"""With more classes, they are a list in which one can type, instead of buttons."""
_PROMPTS = {"words": "Words, separated by commas", "pattern": "A regular expression"}
_HEADS = (
    ("", False),
    ("looks for", False),
    ("rows", True),
    ("conflicts", True),
    ("fixes", True),
    ("breaks", True),
    ("precision", True),
)


class LFMaker:
    """A box for the words to find and the class to vote for, with a live preview."""

    def __init__(self, desk: Desk, on_added: Callable[[], Any]) -> None:
        self.desk, self.on_added = desk, on_added
        self.editing = ""
        """The name of the rule to replace; empty to add a rule."""
        self.request: tuple[str, str, bool, str] | None = None
        """The request that the preview answers."""
        self.found: list[tuple[LabelRule, LFPreview]] = []
        """The proposals on the page, the best first."""

    def build(self, label: str = "") -> None:
        """Show the box; `label` is the class that is chosen at first."""
        names = {name: cut(text, 40) for name, text in self.desk.space.rule_labels.items()}
        first = label if label in names else next(iter(names))
        with ui.element("div").classes("w-row lf-editing") as self.changing:
            self.title = words("")
            ui.button("Cancel", on_click=self.cancel).props("flat dense no-caps")
        self.changing.set_visibility(False)
        with ui.element("div").classes("w-row lf-maker"):
            self.input = (
                ui.input(_PROMPTS["words"], on_change=self._typed)
                .props('outlined dense debounce="100"')
                .classes("lf-words")
                .style("flex: 1 1 260px")
            )
            self.input.on("keydown.enter", self._enter)
            self.kind = ui.toggle(["words", "pattern"], value="words", on_change=self._typed)
            self.kind.props("dense unelevated no-caps").classes("w-toggle")
        with ui.element("div").classes("w-row"):
            words("vote for", "w-faint")
            if len(names) <= _TOGGLED:
                self.choice: Any = ui.toggle(names, value=first, on_change=self._typed)
                self.choice.props("dense unelevated no-caps").classes("lf-label w-toggle")
            else:
                self.choice = ui.select(
                    names, value=first, with_input=True, on_change=self._typed
                ).props("dense outlined options-dense")
                self.choice.classes("lf-label").style("min-width: 240px")
        self.place = ui.element("div").classes("lf-maker lf-proposals")
        self.place.style("display: flex; flex-direction: column; gap: 8px")

    async def show(self, text: str, label: str = "") -> None:
        """Fill the box with marked words, and the class if one is given."""
        self._edit("")
        self.kind.value = "words"
        self.choice.value = label or self.choice.value
        self.input.value = " ".join(text.split())[:200]
        await self._typed()

    async def edit(self, name: str, rule: LabelRule) -> None:
        """Edit a rule instead of adding one."""
        self._edit(name)
        self.choice.value = rule.label
        self.kind.value = "pattern" if rule.kind == "regex" else "words"
        # Use the pattern itself: its short form in tables cannot be searched for.
        self.input.value = rule.pattern if isinstance(rule, Regex) else rule_words(rule)
        await self._typed()

    async def cancel(self) -> None:
        """Leave the rule as it is."""
        self._edit("")
        self.input.value = ""
        await self._typed()

    def _edit(self, name: str) -> None:
        self.editing = name
        self.title.set_text(f"Changing {cut(name, 60)}")
        self.changing.set_visibility(bool(name))

    async def _typed(self) -> None:
        self.input.props["label"] = _PROMPTS[self.kind.value]
        text = (self.input.value or "").strip()
        request = (text, self.choice.value, self.kind.value == "pattern", self.editing)
        if request == self.request:
            return  # marked words change the box, which triggers a second event
        self.request, self.found = request, []
        # Until the new proposals are there, those on the page are for other words or classes.
        self.place.classes(remove="w-ready")
        if not text:
            self.place.clear()
            return
        found = await work(self._proposals_or_problem, *request[:3], quiet=True)
        if request != self.request:
            return  # the user typed more in the meantime
        self.place.clear()
        with self.place:
            if isinstance(found, list):
                self.found = found
                self._proposals(found)
            else:
                words(found or "There is no preview of this rule.", "w-bad")
        self.place.props["data-label"] = request[1]
        self.place.classes("w-ready")
        if self.found:
            await self._show_effect(*self.found[0])

    async def _enter(self) -> None:
        """Add the first proposal, once it is the one for what is typed."""
        await self._typed()
        if self.found:
            await self._add(self.found[0][0])

    def _proposals_or_problem(
        self, text: str, label: str, is_pattern: bool
    ) -> list[tuple[LabelRule, LFPreview]] | str:
        try:
            return self.proposals(text, label, is_pattern)
        except WieselError as error:
            return str(error)

    def proposals(
        self, text: str, label: str, is_pattern: bool
    ) -> list[tuple[LabelRule, LFPreview]]:
        """Return rules for the typed text, each with a preview."""
        column = self.desk.space.text_column or "text"
        rules: list[LabelRule]
        if is_pattern:
            rules = [regex(label, text, column=column)]
        elif "," in text:
            parts = (part.strip() for part in text.split(","))
            rules = [keywords(label, [part for part in parts if part], column=column)]
        else:
            rules = lfs_from_selection(text, label, column=column)
        return list(zip(rules, map_in_threads(self.desk.space.preview_rule, rules), strict=True))

    def _proposals(self, found: list[tuple[LabelRule, LFPreview]]) -> None:
        # The button comes first: in a narrow column the last cells are reached by scrolling.
        with table(*_HEADS):
            for rule, preview in found:
                with ui.element("tr").classes("lf-proposal"):
                    with ui.element("td").style("white-space: nowrap"):
                        title = "Change" if self.editing else "Add"
                        ui.button(title, on_click=lambda rule=rule: self._add(rule)).props(
                            "dense unelevated no-caps"
                        )
                    words(cut(rule_words(rule)), tag="td").style("min-width: 6em")
                    for figure in preview_figures(preview):
                        words(figure, "w-number", tag="td")
        self.effect = ui.element("div").classes("lf-effect w-row")
        preview_hits(self.desk, *found[0])

    async def _show_effect(self, rule: LabelRule, preview: LFPreview) -> None:
        """Show what the first rule would change in the model; its rows are one click away."""
        request, place = self.request, self.effect
        found = await work(self.desk.space.effect, rule, self.editing, quiet=True)
        if request != self.request:
            return
        with place:
            _rows_button(
                self.desk, f"{len(preview.rows):,} rows", preview.rows, "rows of a new rule"
            )
            if found is None:
                words(_waiting(self.desk), "w-faint")
                return
            words(_points(found), "lf-points")
            for rows, what, title in (
                (found.gained, "gain a vote", "rows that would gain a vote"),
                (found.lost, "lose their only vote", "rows that would lose their only vote"),
                (found.changed, "change their class", "rows that would change their class"),
            ):
                if len(rows) or what != "lose their only vote":
                    _rows_button(self.desk, f"{len(rows):,} {what}", rows, title)
            if self.desk.space.sampled:
                words(f"among {self.desk.space.sampled}", "w-faint")

    async def _add(self, rule: LabelRule) -> None:
        lfs = self.desk.space.lf_set
        done = await work(self.desk.space.add_rule, rule, self.editing)
        if done is None:
            return
        ui.notify(f"{done} is in {lfs.rules_file.name if lfs.rules_file else 'the rules'}")
        self._edit("")
        self.input.value, self.request, self.found = "", None, []
        self.place.clear()
        self.desk.changed()
        with self.place:  # the button that was pressed is gone, and with it its page
            await self.on_added()


def _rows_button(desk: Desk, text: str, rows: Any, title: str) -> None:
    button = ui.button(text, on_click=lambda: ui.navigate.to(desk.select("train", rows, title)))
    button.props("flat dense no-caps").set_enabled(len(rows) > 0)


def _waiting(desk: Desk) -> str:
    silent = desk.space.silent_classes()
    if not silent:
        return "The effect on the model is not known: there are no features."
    return f"The effect on the model is shown once {listed(silent, limit=3)} has votes or labels."


def _points(found: RuleEffect) -> str:
    if found.points is None:
        return "Label rows drawn at random to see how it changes the accuracy:"
    low, high = (100 * end for end in found.points)
    return (
        f"It changes the model by {low:+.1f} to {high:+.1f} points "
        f"({found.n_labeled:,} labeled rows):"
    )


def preview_figures(preview: LFPreview) -> list[str]:
    """Return rows, conflicts, fixes, breaks and the estimated precision as text."""
    return [
        f"{len(preview.rows):,} ({percent(preview.coverage, 1)})",
        f"{preview.conflicts:,}",
        f"{len(preview.fixes)}",
        f"{len(preview.breaks)}",
        percent(preview.estimate),
    ]


def preview_hits(desk: Desk, rule: LabelRule, preview: LFPreview) -> None:
    """Show some rows that a rule would vote on, with the matched words highlighted."""
    column = desk.space.text_column
    if column is None or not len(preview.rows):
        words("No row matches.", "w-faint")
        return
    words("For example", "w-h3", tag="h3")
    with ui.element("div").classes("lf-hits"):
        _examples(desk, column, rule, preview)


def _examples(desk: Desk, column: str, rule: LabelRule, preview: LFPreview) -> None:
    for place in preview.rows[:_HITS]:
        row = desk.space.train.rows.row(int(place), named=True)
        try:
            spans = matched_spans(rule, row).get(column, [])
        except WieselError:
            spans = []
        text = row[column] or ""
        start = max(0, spans[0][0] - _AROUND) if spans else 0
        part = text[start : start + 3 * _AROUND]
        moved = [(a - start, b - start) for a, b in spans if b - start <= len(part)]
        marked(
            ("…" if start else "") + part, [(a + bool(start), b + bool(start)) for a, b in moved]
        )
