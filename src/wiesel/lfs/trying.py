"""try_lfs: the votes of labeling functions on a few rows, with the matched text highlighted."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from wiesel.lfs.ballots import scalar
from wiesel.lfs.batch import Batch, RowSource
from wiesel.lfs.function import LabelingFunction, as_lfs
from wiesel.lfs.python_function import PythonFunction
from wiesel.lfs.text_rules import Keywords, Regex
from wiesel.parameters import check_number

if TYPE_CHECKING:  # workers, which show nothing, start without it
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.text import Text

__all__ = ["Trial", "TriedRow", "try_lfs"]

Spans = list[tuple[int, int]]
"""Where matches start and end in a text."""

_AROUND = 60
"""Characters shown before and after a match in a long text."""
_LONG = 400


@dataclass(frozen=True)
class TriedRow:
    """One row, the votes on it, and the matched positions in its texts."""

    item: str
    row: Mapping[str, Any]
    votes: Mapping[str, Any]
    """The vote of each labeling function that did not abstain."""
    errors: Mapping[str, str]
    """The error of each labeling function that failed."""
    spans: Mapping[str, Spans]
    """The matched text in each column."""

    def to_dict(self) -> dict[str, Any]:
        """Return the row and the votes as plain data."""
        return {
            "item": self.item,
            "row": dict(self.row),
            "votes": dict(self.votes),
            "errors": dict(self.errors),
            "spans": {name: [list(span) for span in own] for name, own in self.spans.items()},
        }


@dataclass(frozen=True)
class Trial:
    """The result of `try_lfs`, with displays for the terminal and notebooks."""

    rows: tuple[TriedRow, ...]
    lfs: tuple[str, ...]

    def __iter__(self) -> Iterator[TriedRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        """Yield every row, matches reversed and votes below."""
        from rich.console import Group

        for tried in self.rows:
            yield Group(*_terminal_lines(tried))

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(no_color=True, width=100, force_terminal=False, force_jupyter=False)
        with console.capture() as captured:
            console.print(self)
        return captured.get().rstrip("\n")

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "<div>" + "".join(_html(tried) for tried in self.rows) + "</div>"


def try_lfs(lfs: LabelingFunction | Iterable[Any], rows: Any, *, n: int = 10) -> Trial:
    """Return the votes of labeling functions on the first `n` rows, with the matching text.

    Nothing is raised: an error of a labeling function is shown next to the votes of the others.

    >>> from wiesel import keywords
    >>> spam = keywords("spam", ["free", "prize"], column="text", name="gifts")
    >>> print(try_lfs(spam, [{"text": "A free lunch"}, {"text": "see you"}]))
    row 0
      text: A [free] lunch
      spam: gifts
    row 1
      text: see you
      nobody votes
    """
    check_number(Trial, "n", n, low=1, whole=True)
    functions = as_lfs(lfs)
    batch = next(RowSource(rows).batches(size=n))
    tried = [_tried(functions, batch, position) for position in range(min(n, len(batch)))]
    return Trial(tuple(tried), tuple(lf.name for lf in functions))


def matched_spans(lf: LabelingFunction, row: Mapping[str, Any]) -> dict[str, Spans]:
    """Return where a text rule matches in a row, by column; nothing for other functions."""
    if not isinstance(lf, (Keywords, Regex)) or not isinstance(row.get(lf.column), str):
        return {}
    return {lf.column: lf.spans(row[lf.column])}


def _tried(lfs: Sequence[LabelingFunction], batch: Batch, position: int) -> TriedRow:
    row = batch.rows[position]
    votes: dict[str, Any] = {}
    errors: dict[str, str] = {}
    spans: dict[str, Spans] = {}
    for lf in lfs:
        try:
            vote = _vote(lf, batch, position)
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            errors[lf.name] = f"{type(error).__name__}: {error}"
            continue
        if vote is not None:
            votes[lf.name] = vote
            for column, found in matched_spans(lf, row).items():
                spans[column] = _merged([*spans.get(column, []), *found])
    return TriedRow(batch.item(position), row, votes, errors, spans)


def _vote(lf: LabelingFunction, batch: Batch, position: int) -> Any:
    """The vote of a labeling function on a row; a vectorized one gets all tried rows."""
    if isinstance(lf, PythonFunction) and lf.vectorized:
        return scalar(list(lf(batch.frame))[position])
    return lf(batch.rows[position])


def _merged(spans: Spans) -> Spans:
    """Spans in order, those that touch or overlap as one."""
    merged: Spans = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _pieces(value: Any, spans: Spans) -> list[tuple[str, bool]]:
    """A value as pieces of text, each matched or not; long texts only around the matches."""
    text = value if isinstance(value, str) else repr(value)
    pieces: list[tuple[str, bool]] = []
    end = 0
    for start, stop in spans:
        pieces += [(_between(text[end:start], first=end == 0), False), (text[start:stop], True)]
        end = stop
    rest = text[end:]
    pieces.append((rest if len(rest) <= _LONG else rest[: _LONG // 2] + " …", False))
    return [(piece, matched) for piece, matched in pieces if piece]


def _between(text: str, first: bool) -> str:
    if len(text) <= _LONG // 2:
        return text
    return f"{'' if first else text[:_AROUND]} … {text[-_AROUND:]}"


def _verdicts(tried: TriedRow) -> list[tuple[str, str]]:
    """Classes with their voters, then failures."""
    by_vote: dict[str, list[str]] = {}
    for name, vote in tried.votes.items():
        by_vote.setdefault(vote if isinstance(vote, str) else str(vote), []).append(name)
    lines = [(vote, ", ".join(names)) for vote, names in by_vote.items()]
    return lines + [("failed", f"{name} ({error})") for name, error in tried.errors.items()]


def _terminal_lines(tried: TriedRow) -> "Iterator[Text]":
    from rich.text import Text

    yield Text(tried.item, style="bold")
    for column, value in tried.row.items():
        line = Text(f"  {column}: ", style="dim")
        for piece, matched in _pieces(value, tried.spans.get(column, [])):
            line.append(
                f"[{piece}]" if matched else piece, "bold reverse" if matched else "not dim"
            )
        yield line
    verdicts = _verdicts(tried)
    for vote, names in verdicts:
        yield Text.assemble("  ", (f"{vote}: ", "red" if vote == "failed" else "green"), names)
    if not verdicts:
        yield Text("  nobody votes", style="dim")


def _html(tried: TriedRow) -> str:
    cells = []
    for column, value in tried.row.items():
        pieces = _pieces(value, tried.spans.get(column, []))
        marked = "".join(f"<mark>{escape(p)}</mark>" if hit else escape(p) for p, hit in pieces)
        cells.append(f"<div><small>{escape(column)}</small> {marked}</div>")
    verdicts = [f"<b>{escape(vote)}</b> {escape(names)}" for vote, names in _verdicts(tried)]
    summary = "<br>".join(verdicts) or "<i>nobody votes</i>"
    return f"<p><b>{escape(tried.item)}</b>{''.join(cells)}<div>{summary}</div></p>"
