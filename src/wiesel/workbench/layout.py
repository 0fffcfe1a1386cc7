"""The common page layout: the top bar, the colors, the empty states, problems of files."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlencode

from nicegui import ui

from wiesel.project.settings import SEVERAL_LABELS, SPANS
from wiesel.workbench.desk import Desk, work
from wiesel.workbench.first_steps import FirstSteps, close_first_steps
from wiesel.workbench.texts import cut, link, words

__all__ = [
    "AXIS",
    "COLORS",
    "GRAY",
    "PAGES",
    "ProblemBanner",
    "card",
    "empty_state",
    "frame",
    "heading",
    "keep_in_address",
    "plain_frame",
    "remember_person",
    "stored_person",
    "table",
]

GRAY = "#77818b"
COLORS = ["#4a90c4", "#cf7440", "#4fa574", "#9c72bd", "#b8941f", "#4b9fa9", "#bd5f86"]
"""Colors of chart lines, on a light and on a dark page."""
AXIS = {
    "axisLabel": {"color": GRAY},
    "splitLine": {"lineStyle": {"color": "rgba(128,128,128,0.25)"}},
}
"""The style of chart axes, on a light and on a dark page."""


PAGES = (
    ("/", "Data"),
    ("/map", "Map"),
    ("/lfs", "LFs"),
    ("/label", "Label"),
    ("/train", "Train"),
    ("/results", "Results"),
)

_PATIENCE = 60.0
"""How many seconds a browser on a busy machine may take to respond."""

KEYS = {
    "/": {"Enter": "open the row in focus", "← →": "the row before and after, in an open row"}
    | {"1 to 9": "label the open row"},
    "/lfs": {"A": "accept the first proposal", "R": "reject it", "Enter": "add the typed words"},
    "/label": {"1 to 9": "label with this class", "S": "skip", "U": "undo the last label"}
    | {"/": "find a class, if there are more than nine", "Enter": "take the first class found"},
}
"""The keys of each page; Tab and Shift-Tab go through everything else."""
_LABEL_KEYS = {
    SEVERAL_LABELS: {
        "1 to 9": "choose this label, or take it back",
        "Enter": "save the chosen labels, or none of them",
        "S": "skip",
        "U": "undo the last answer",
        "/": "find a label, if there are more than nine",
    },
    SPANS: {
        "← → ↑ ↓": "go to another word",
        "Shift": "with an arrow, choose several words",
        "1 to 9": "mark the chosen words with this label",
        "Backspace": "remove the mark",
        "Ctrl Z": "take back the last mark",
        "P": "take over what the model, or else the voters, mark",
        "Enter": "save the text with its marks, or with none",
        "S": "skip",
        "U": "undo the last answer",
    },
}
"""The keys of the page Label, for other kinds of tasks than one label."""

CSS = """
:root { --w-line: #d8dde3; --w-soft: #f4f6f8; --w-faint: #5c6670; --w-mark: #ffe08a;
  --w-page: #ffffff; --w-ink: #1c2127; --w-accent: #28597a; }
body.body--dark { --w-line: #3a424b; --w-soft: #22282e; --w-faint: #a3adb8; --w-mark: #7a5c00;
  --w-page: #171b1f; --w-ink: #e7ebef; --w-accent: #8fc1e3; }
body { --q-primary: #28597a !important; }
body.body--dark { --q-primary: #8fc1e3 !important; }
body.body--dark .q-btn.bg-primary .q-btn__content { color: #10202c; }
body .q-btn.w-class .q-btn__content { color: #fff !important; }
body { background: var(--w-page); color: var(--w-ink); font-size: 15px; }
.nicegui-content { padding: 0; }
.w-bar { background: var(--w-soft) !important; color: var(--w-ink) !important;
  border-bottom: 1px solid var(--w-line); box-shadow: none; padding: 6px 16px;
  display: flex; flex-wrap: wrap; gap: 4px 14px; align-items: center; }
.w-bar a { color: var(--w-ink); text-decoration: none; padding: 6px 10px; border-radius: 6px; }
.w-bar a[aria-current] { background: var(--w-accent); color: var(--w-page); }
.w-name { font-weight: 600; max-width: 40vw; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; unicode-bidi: isolate; }
.w-main { padding: 16px; width: 100%; max-width: 1840px; margin: 0 auto; display: flex;
  flex-direction: column; gap: 14px; box-sizing: border-box; }
.w-columns { display: grid; grid-template-columns: minmax(0, 5fr) minmax(0, 3fr); gap: 14px;
  align-items: start; width: 100%; }
.w-card { border: 1px solid var(--w-line); border-radius: 8px; padding: 12px 14px;
  background: var(--w-page); min-width: 0; display: flex; flex-direction: column; gap: 8px; }
.w-stack { display: flex; flex-direction: column; gap: 14px; min-width: 0; }
.w-row { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; }
.w-h { font-size: 17px; font-weight: 600; margin: 0; line-height: 1.3; }
.w-h3 { font-size: 15px; font-weight: 600; margin: 0; line-height: 1.3; }
.w-faint { color: var(--w-faint); }
.lf-proposals:not(.w-ready) { opacity: 0.5; pointer-events: none; }
.w-text { white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate;
  max-height: 50vh; overflow-y: auto; line-height: 1.5; }
.q-dialog .q-card > * { flex-shrink: 0; } /* else a long preview leaves no room for the text */
.q-dialog .w-text.row-text { max-height: 35vh; }
.w-text mark, mark { background: var(--w-mark); color: inherit; border-radius: 3px; }
.w-scroll { overflow-x: auto; width: 100%; }
.w-table { border-collapse: collapse; width: 100%; font-size: 14px; }
.w-table th { text-align: left; font-weight: 600; border-bottom: 1px solid var(--w-line);
  padding: 6px 8px; white-space: nowrap; }
.w-table td { padding: 6px 8px; border-bottom: 1px solid var(--w-line); vertical-align: top;
  overflow-wrap: break-word; unicode-bidi: isolate; }
.entrance-drop .q-uploader__header { background: var(--w-soft) !important; color: var(--w-ink); }
.entrance-drop .q-uploader__subtitle { display: none; }
.entrance-drop .q-uploader__list { min-height: 0; padding: 0; }
.w-table .w-number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.lf-proposals th, .lf-proposals td { padding-left: 4px; padding-right: 4px; font-size: 13px; }
.data-rows .w-table { table-layout: fixed; }
.data-rows th:nth-child(2), .data-rows th:nth-child(3) { width: 17%; }
.data-rows th:nth-child(4) { width: 12%; }
.w-filters { display: grid; grid-template-columns: repeat(auto-fill, minmax(128px, 1fr));
  gap: 8px; }
.w-filters > :last-child { grid-column: span 2; }
.w-form { display: flex; flex-direction: column; gap: 12px; max-width: 720px; }
.w-search { grid-column: span 2; }
.w-toggle { border: 1px solid var(--w-line); border-radius: 4px; flex-wrap: wrap; }
.w-toggle .q-btn { padding: 2px 12px; }
.lf-table td, .results td, .conflict-list td { vertical-align: middle; }
.w-main a { color: var(--w-accent); }
.map-parts, .map-parts .q-btn { display: flex; flex-direction: column; align-items: flex-start; }
.first-steps { border-left: 3px solid var(--w-accent); }
.first-steps-list { display: flex; flex-wrap: wrap; gap: 4px 18px; list-style: none; margin: 0;
  padding: 0; }
.first-steps-list a { text-decoration: none; }
.first-step-done a, .first-step-later a { color: var(--w-faint); }
.first-step-now a { font-weight: 600; text-decoration: underline; text-underline-offset: 4px; }
.first-steps-go { border: 1px solid var(--w-accent); border-radius: 6px; padding: 2px 10px;
  text-decoration: none; }
.lf-hits { display: flex; flex-direction: column; gap: 8px; }
.lf-hits > * { border-left: 2px solid var(--w-line); padding-left: 8px; }
.w-next { display: flex; flex-direction: column; align-items: flex-start; }
.w-table tr.w-open { cursor: pointer; }
.w-table tr.w-open:hover, .w-table tr.w-open:focus { background: var(--w-soft); outline: none; }
.w-table tr.w-open:focus { box-shadow: inset 3px 0 0 var(--w-accent); }
.w-chip { display: inline-block; border-radius: 10px; padding: 1px 9px; color: #fff;
  font-size: 13px; margin: 1px 3px 1px 0; white-space: nowrap; max-width: 100%;
  overflow: hidden; text-overflow: ellipsis; vertical-align: bottom; }
.w-empty { border: 1px dashed var(--w-line); border-radius: 8px; padding: 22px; }
.w-code { white-space: pre-wrap; font-family: ui-monospace, monospace; font-size: 13px;
  overflow-wrap: anywhere; margin: 0; }
.w-bad { color: #b3261e; } body.body--dark .w-bad { color: #f2a7a1; }
.w-problems { border: 1px solid #b3261e; border-radius: 8px; padding: 10px 14px; }
.w-problems p { margin: 6px 0 0; overflow-wrap: anywhere; }
.w-wait { min-height: 220px; display: flex; align-items: center; justify-content: center; }
.lf-name { cursor: pointer; } .lf-name:hover, .lf-name:focus { text-decoration: underline; }
.lf-table th { white-space: normal; } .lf-table td:first-child { min-width: 9em; }
.w-name-cell { white-space: nowrap; }
.w-key { border: 1px solid var(--w-line); border-radius: 4px; padding: 0 6px; font-size: 12px;
  margin-left: 6px; }
.marker { display: flex; flex-direction: column; gap: 10px; }
.marker-text { line-height: 2.1; user-select: none; touch-action: pan-y; cursor: text; padding: 4px;
  border-radius: 6px; max-height: 60vh; }
.marker-text:focus-visible { outline: 2px solid var(--w-accent); }
.w-text mark.marker-span { background: color-mix(in srgb, var(--span) 28%, transparent);
  border-bottom: 3px solid var(--span); border-radius: 4px; padding: 3px 1px; }
.marker-label { background: var(--span); color: #fff; font-size: 11px; border-radius: 4px;
  padding: 0 4px; margin-left: 4px; vertical-align: 1px; white-space: nowrap; }
.label-error { cursor: pointer; padding: 4px; border-radius: 6px; }
.label-error:hover, .label-error:focus { background: var(--w-soft); outline: none; }
.marker-chosen { background: var(--w-accent); color: var(--w-page); border-radius: 2px; }
.marker-button { border: 0; border-radius: 4px; color: #fff; padding: 7px 12px; font: inherit;
  font-size: 14px; cursor: pointer; }
.marker-plain { background: transparent !important; color: var(--w-ink);
  border: 1px solid var(--w-line); }
.marker-save { border-color: var(--w-accent); color: var(--w-accent); font-weight: 600; }
@media (max-width: 800px) {
  .w-columns { grid-template-columns: minmax(0, 1fr); }
  .first-step-done, .first-step-later { display: none; }
  .w-main { padding: 10px; } .w-wide { display: none; } .w-bar { padding: 4px 8px; gap: 2px 4px; }
  .data-rows thead { display: none; }
  .data-rows tr { display: block; padding: 6px 0; border-bottom: 1px solid var(--w-line); }
  .data-rows td { display: inline-block; border: 0; padding: 2px 6px; }
  .data-rows td:first-child { display: block; }
  .lf-table thead { display: none; }
  .lf-table tr { display: block; padding: 6px 0; border-bottom: 1px solid var(--w-line); }
  .lf-table td { display: inline-block; border: 0; padding: 2px 6px; }
  .lf-table td:first-child { display: block; }
  .lf-table td:is(:nth-child(4), :nth-child(5), :nth-child(7)) { display: none; }
  .lf-table td:nth-child(3)::before { content: "covers "; }
  .lf-table td:nth-child(6)::before { content: "precision "; }
  .w-bar a { padding: 6px 8px; } .w-name { max-width: 92vw; flex-basis: 100%; }
}
"""
_LISTED = 5
_LONGEST = 400


@contextmanager
def frame(desk: Desk, path: str) -> Iterator[None]:
    """Wrap a page in the common frame."""
    ui.add_css(CSS)
    with ui.header(elevated=False).classes("w-bar").props('role="navigation"'):
        words(desk.space.project.name, "w-name")
        for address, name in PAGES:
            tab = link("Crowd" if address == "/lfs" and desk.space.has_crowd else name, address)
            if address == path:
                tab.props('aria-current="page"')
        _keys_button(path, desk.space.project.task)
    with ui.element("main").classes("w-main"):
        ProblemBanner(desk).build()
        FirstSteps(desk, path).build()
        yield


def _keys_button(path: str, kind: str) -> None:
    with ui.dialog() as dialog, ui.card().style("min-width: 320px"):
        heading("Keys")
        own = _LABEL_KEYS.get(kind, KEYS["/label"]) if path == "/label" else KEYS.get(path, {})
        keys = {**own, "Tab": "go to the next button or field", "?": "this list"}
        with table(("key", False), ("what it does", False)):
            for key, meaning in keys.items():
                with ui.element("tr"):
                    words(key, tag="td")
                    words(meaning, tag="td")

        def show_first_steps() -> None:
            close_first_steps(False)
            ui.navigate.reload()

        with ui.element("div").classes("w-row"):
            ui.button("Close", on_click=dialog.close).props("flat no-caps")
            again = ui.button("Show the first steps", on_click=show_first_steps)
            again.props("flat no-caps")
    button = ui.button("?", on_click=dialog.open).props('flat dense round aria-label="Keys"')
    button.classes("w-keys").style("margin-left: auto")
    ui.keyboard(
        on_key=lambda event: dialog.open() if event.key == "?" and event.action.keydown else None,
        ignore=["input", "select", "textarea"],
    )


async def stored_person() -> str:
    """Ask the browser under which name its user labels; empty if there is none."""
    found = await ui.run_javascript(
        "localStorage.getItem('wiesel-person') || ''", timeout=_PATIENCE
    )
    return str(found or "")


def remember_person(name: str) -> None:
    """Let the browser remember under which name its user labels."""
    ui.run_javascript(f"localStorage.setItem('wiesel-person', {json.dumps(name)})")


def keep_in_address(page: str, query: Mapping[str, str]) -> None:
    """Write what a page shows into its address, without a new entry in the browser's history."""
    address = f"{page}?{urlencode(query)}" if query else page
    ui.run_javascript(f"history.replaceState(history.state, '', {json.dumps(address)})")


@contextmanager
def plain_frame(title: str) -> Iterator[None]:
    """Wrap a page that belongs to no project yet."""
    ui.add_css(CSS)
    with ui.header(elevated=False).classes("w-bar"):
        words(title, "w-name")
    with ui.element("main").classes("w-main"):
        yield


@contextmanager
def card(title: str = "") -> Iterator[ui.element]:
    """Wrap content in a box with a title."""
    with ui.element("section").classes("w-card") as box:
        if title:
            heading(title)
        yield box


def heading(text: str) -> None:
    """Show a heading."""
    words(text, "w-h", tag="h2")


def empty_state(title: str, what_to_do: str, address: str = "", button: str = "") -> None:
    """Show that there is nothing here yet, and what to do about it."""
    with ui.element("div").classes("w-empty"):
        heading(title)
        words(what_to_do, "w-faint", tag="p")
        if address:
            go = ui.button(button, on_click=lambda: ui.navigate.to(address))
            go.props("unelevated no-caps").style("margin-top: 8px")


@contextmanager
def table(*headers: tuple[str, bool]) -> Iterator[None]:
    """Show a table: `headers` are (title, is a number); add rows by `with ui.element("tr")`."""
    with ui.element("div").classes("w-scroll"), ui.element("table").classes("w-table"):
        with ui.element("thead"), ui.element("tr"):
            for title, is_number in headers:
                words(title, *(["w-number"] if is_number else []), tag="th")
        with ui.element("tbody"):
            yield


class ProblemBanner:
    """The banner; it follows the files."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.problems: tuple[str, ...] = ()

    def build(self) -> None:
        """Show the banner; it is empty while everything can be read."""
        self.place = ui.element("div").classes("w-problems").props('role="alert"')
        self.place.set_visibility(False)
        if self.desk.space.has_lfs:
            ui.timer(0.1, self._follow, once=True)
            ui.timer(2.0, self._follow)

    async def _follow(self) -> None:
        await work(self.desk.follow_files, quiet=True)
        found = await work(self.desk.problems, quiet=True) or ()
        if found == self.problems:
            return
        self.problems = found
        self.place.clear()
        self.place.set_visibility(bool(found))
        with self.place:
            words(
                "Some labeling functions are broken. They do not vote, the others do. A run does "
                "not start before they are mended or removed.",
                tag="strong",
            )
            for problem in found[:_LISTED]:
                words(cut(problem, _LONGEST), tag="p")
            if len(found) > _LISTED:
                words(f"and {len(found) - _LISTED:,} more", tag="p")
