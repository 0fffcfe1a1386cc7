"""Mark spans in texts, with the mouse or with the keyboard; `marker.js` does it in the browser."""

from collections.abc import Mapping, Sequence
from typing import Any

from nicegui.element import Element
from nicegui.events import KeyEventArguments

from wiesel.spans import Document, Span
from wiesel.workbench.desk import Desk, work
from wiesel.workbench.label_page import LabelPage
from wiesel.workbench.texts import shade, shown

__all__ = ["MarkPage", "token_spans"]


class Marker(Element, component="marker.js"):
    """A text whose words can be marked. Spans are (first word, word after the last, label)."""

    def __init__(
        self,
        pieces: list[str],
        labels: list[dict[str, str]],
        marks: list[list[Any]],
        proposal: list[list[Any]],
    ) -> None:
        super().__init__()
        self._props |= {
            "pieces": pieces,
            "labels": labels,
            "given": marks,
            "proposal": proposal,
        }


class MarkPage(LabelPage):
    """Texts in which to mark spans, one after the other."""

    hint = "Arrows go to words, Shift extends, number keys mark, Backspace removes, Enter saves"

    def __init__(self, desk: Desk, query: Mapping[str, str]) -> None:
        super().__init__(desk, query)
        self.document: Document | None = None
        self.marked: dict[str, list[list[Any]]] = {}
        """The spans of texts in this session, so that undo brings them back."""
        self.proposals: dict[str, list[Span]] = {}
        """What the latest run, or else the voters, mark in the texts that wait."""

    def _build_answers(self) -> None:
        """Build nothing: the marker has the buttons."""

    async def _fetch(self) -> None:
        begins = not self.waiting
        await super()._fetch()
        if begins:
            self._bring_back(await work(self.desk.drafts.of, self.person, quiet=True) or {})
        found = await work(self._proposed, [each["row"] for each in self.waiting], quiet=True)
        self.proposals = found or {}

    def _bring_back(self, drafts: dict[str, Any]) -> None:
        """Show texts first whose marks were not saved when their page was closed."""
        for item, draft in drafts.items():
            place = self.desk.place_of(item)
            if place is not None:
                self.marked[item] = draft["marks"]
                self.waiting = [each for each in self.waiting if str(each["item"]) != item]
                reason = "marked before, and not saved yet"
                request = {"item": item, "row": place, "purpose": draft["purpose"]}
                self.waiting.insert(0, request | {"reason": reason})

    def _proposed(self, rows: list[int]) -> dict[str, list[Span]]:
        space = self.desk.space
        found = self.desk.predictions("train")
        ids = space.train.ids.gather(rows).to_list()
        if found is not None:
            return {str(item): found.predicted[row] for item, row in zip(ids, rows, strict=True)}
        voted = [[span for _, span in space.spans_on("train", row)] for row in rows]  # type: ignore[attr-defined]
        return {str(item): longest(own) for item, own in zip(ids, voted, strict=True)}

    def _show_text(self, request: dict[str, Any], text: str | None) -> None:
        space, item = self.desk.space, str(request["item"])
        self.document = document = space.documents["train"][request["row"]]  # type: ignore[attr-defined]
        pieces, place = [], 0
        for start, end in zip(document.starts.tolist(), document.ends.tolist(), strict=True):
            pieces += [shown(document.text[place:start]), shown(document.text[start:end])]
            place = end
        pieces.append(shown(document.text[place:]))
        labels = [{"name": name, "color": shade(space.labels, name)} for name in space.labels]
        proposal = token_spans(document, self.proposals.get(item, ()))
        marker = Marker(pieces, labels, self.marked.get(item, []), proposal)
        marker.classes("mark-text")
        marker.on("save", lambda event: self._save(item, event.args))
        marker.on("changed", lambda event: self._changed(item, request["purpose"], event.args))

    async def _changed(self, item: str, purpose: str, marks: list[list[Any]]) -> None:
        """Keep every mark at once, so that none is lost with the page."""
        self.marked[item] = marks
        draft = {"marks": marks, "purpose": purpose}
        await work(self.desk.drafts.keep, self.person, item, draft if marks else None)

    def _keep(self, item: str, label: str | None, purpose: str) -> bool:
        is_kept = super()._keep(item, label, purpose)
        self.desk.drafts.keep(self.person, item, None)
        return is_kept

    async def _save(self, item: str, marks: list[list[Any]]) -> None:
        if self.document is None or not self.waiting or str(self.waiting[0]["item"]) != item:
            return  # pressed twice
        self.marked[item] = marks
        found = [self.document.span(int(first), int(last), label) for first, last, label in marks]
        await self.answer(self.desk.space.answers.written(found))

    async def _key(self, event: KeyEventArguments) -> None:
        if event.key.number is None:  # number keys mark, in the browser
            await super()._key(event)


def token_spans(document: Document, given: Sequence[Any]) -> list[list[Any]]:
    """Return spans as words: (first, the one after the last, label).

    >>> from wiesel.spans import Documents
    >>> token_spans(Documents.from_texts(["Ada met Bob Dole"])[0], [(8, 16, "PER")])
    [[2, 4, 'PER']]
    """
    found = []
    for start, end, label, *_ in given:
        touched = [
            k for k in range(len(document)) if document.ends[k] > start and document.starts[k] < end
        ]
        if touched:
            found.append([touched[0], touched[-1] + 1, label])
    return found


def longest(given: Sequence[Span]) -> list[Span]:
    """Return spans that do not overlap, the longest first to be kept.

    >>> longest([Span(0, 3, "A"), Span(0, 7, "B"), Span(8, 9, "A")])
    [Span(start=0, end=7, label='B', confidence=None), Span(start=8, end=9, label='A', \
confidence=None)]
    """
    kept: list[Span] = []
    for span in sorted(set(given), key=lambda span: (span.start - span.end, span)):
        if all(span.end <= other.start or other.end <= span.start for other in kept):
            kept.append(span)
    return sorted(kept)
