"""Creates labeling functions: from marked words to proposals, each with a preview."""

from collections.abc import Callable
from typing import Any

from nicegui import ui

from wiesel.errors import WieselError
from wiesel.guidance import LFPreview, lfs_from_selection
from wiesel.guidance.suggesting import rule_words
from wiesel.lfs.rules import LabelRule
from wiesel.lfs.text_rules import Regex, keywords, regex
from wiesel.lfs.trying import matched_spans
from wiesel.threads import map_in_threads
from wiesel.workbench.desk import Desk, work
from wiesel.workbench.layout import table
from wiesel.workbench.texts import cut, marked, percent, words

__all__ = ["LFMaker", "preview_figures", "preview_hits"]

_HITS = 5
_AROUND = 120
_PROMPTS = {"words": "Words, separated by commas", "pattern": "A regular expression"}
_REFUSED = {
    "pattern": "This pattern is not valid.",
    "words": "Use at most twelve words.",
}


class LFMaker:
    """A box for the words to find and the class to vote for, with a live preview."""

    def __init__(self, desk: Desk, on_added: Callable[[], Any]) -> None:
        self.desk, self.on_added = desk, on_added
        self.editing = ""
        """The name of the rule to replace; empty to add a rule."""
        self.request: tuple[str, str, bool, str] | None = None
        """The request that the preview answers."""

    def build(self) -> None:
        """Show the box."""
        names = list(self.desk.space.labels)
        with ui.element("div").classes("w-row lf-maker"):
            self.input = (
                ui.input(_PROMPTS["words"], on_change=self._typed)
                .props('outlined dense debounce="100"')
                .classes("lf-words")
                .style("flex: 1 1 260px")
            )
            self.kind = ui.toggle(["words", "pattern"], value="words", on_change=self._typed)
            self.kind.props("dense unelevated no-caps").classes("w-toggle")
        with ui.element("div").classes("w-row"):
            words("vote for", "w-faint")
            self.choice = ui.toggle(names, value=names[0], on_change=self._typed)
            self.choice.props("dense unelevated no-caps").classes("lf-label w-toggle")
        self.place = ui.element("div").classes("lf-maker lf-proposals")
        self.place.style("display: flex; flex-direction: column; gap: 8px")

    async def show(self, text: str) -> None:
        """Fill the box with marked words."""
        self.editing = ""
        self.kind.value = "words"
        self.input.value = " ".join(text.split())[:200]
        await self._typed()

    async def edit(self, name: str, rule: LabelRule) -> None:
        """Edit a rule instead of adding one."""
        self.editing = name
        self.choice.value = rule.label
        self.kind.value = "pattern" if rule.kind == "regex" else "words"
        # Use the pattern itself: its short form in tables cannot be searched for.
        self.input.value = rule.pattern if isinstance(rule, Regex) else rule_words(rule)
        await self._typed()

    async def _typed(self) -> None:
        self.input.props["label"] = _PROMPTS[self.kind.value]
        text = (self.input.value or "").strip()
        request = (text, self.choice.value, self.kind.value == "pattern", self.editing)
        if request == self.request:
            return  # marked words change the box, which triggers a second event
        self.request = request
        # Until the new proposals are there, those on the page are for other words or classes.
        self.place.classes(remove="w-ready")
        if not text:
            self.place.clear()
            return
        found = await work(self.proposals, *request[:3], quiet=True)
        if request != self.request:
            return  # the user typed more in the meantime
        self.place.clear()
        with self.place:
            if found is None:
                words(_REFUSED["pattern" if request[2] else "words"], "w-bad")
            else:
                self._proposals(found)
        self.place.props["data-label"] = request[1]
        self.place.classes("w-ready")

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
        with table(
            ("", False),
            ("looks for", False),
            ("rows", True),
            ("conflicts", True),
            ("fixes", True),
            ("breaks", True),
            ("precision", True),
        ):
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
        preview_hits(self.desk, *found[0])

    async def _add(self, rule: LabelRule) -> None:
        lfs = self.desk.space.lf_set
        if self.editing:
            done = await work(lfs.replace, self.editing, rule.renamed(self.editing))
        else:
            done = await work(lfs.add, rule)
        if done is None:
            return
        ui.notify(f"{done} is in {lfs.rules_file.name if lfs.rules_file else 'the rules'}")
        self.editing, self.input.value, self.request = "", "", None
        self.place.clear()
        self.desk.changed()
        await self.on_added()


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
