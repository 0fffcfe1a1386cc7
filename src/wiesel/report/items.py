"""Single items in a report: errors with matched words, and items where model and votes differ."""

from collections.abc import Sequence
from html import escape

from wiesel.report.contents import Disagreement, ErrorItem, ReportData

__all__ = ["disagreements", "errors", "highlighted"]

_LISTED_VOTES = 8
_TEXT = 600
_SHOWN = 8


def errors(data: ReportData) -> str:
    """Return items with gold labels that the end model gets wrong, most confident first."""
    if not data.errors:
        return ""
    more = (
        f" ({len(data.errors):,} of {data.n_errors:,})" if data.n_errors > len(data.errors) else ""
    )
    intro = (
        f"<p>Wrong predictions on the {escape(data.judged_on)} items, the most confident first"
        f"{more}. Words that a voter matched are marked. Voters that voted for the "
        "gold label are ticked.</p>"
    )
    return intro + _folded([_error(item) for item in data.errors])


def disagreements(data: ReportData) -> str:
    """Return training items on which the end model and the votes disagree."""
    if not data.disagreements:
        return ""
    intro = (
        "<p>Here the end model, which reads the item, and the weighted votes disagree. Such items "
        "often show wrong votes, missing labeling functions, or unusual "
        "items.</p>"
    )
    return intro + _folded([_disagreement(item) for item in data.disagreements])


def highlighted(text: str, spans: Sequence[tuple[int, int]], limit: int = _TEXT) -> str:
    """Return a text as HTML with parts highlighted; a long text is cut around the first one.

    >>> highlighted("a <free> prize", [(3, 7)])
    'a &lt;<mark>free</mark>&gt; prize'
    """
    kept = [(start, end) for start, end in sorted(spans) if 0 <= start < end <= len(text)]
    begin = 0
    if kept and kept[0][0] > limit - 100:
        begin = max(0, kept[0][0] - 100)
    end = min(len(text), begin + limit)
    parts, place = ["\N{HORIZONTAL ELLIPSIS} " if begin else ""], begin
    for first, last in kept:
        if first < place or last > end:
            continue
        parts.append(escape(text[place:first]))
        parts.append(f"<mark>{escape(text[first:last])}</mark>")
        place = last
    parts.append(escape(text[place:end]))
    parts.append(" \N{HORIZONTAL ELLIPSIS}" if end < len(text) else "")
    return "".join(parts)


def _folded(items: Sequence[str]) -> str:
    """Return the first items; the others are folded and open on demand."""
    first, rest = items[:_SHOWN], items[_SHOWN:]
    if not rest:
        return "".join(first)
    return "".join(first) + f"<details><summary>{len(rest)} more</summary>{''.join(rest)}</details>"


def _error(item: ErrorItem) -> str:
    return (
        f"<article><h3>{escape(item.item)}</h3>"
        f"<blockquote>{highlighted(item.text, item.spans)}</blockquote>"
        f"<p><span>gold: <b>{escape(item.gold)}</b></span> "
        f"<span>predicted: <b>{escape(item.predicted)}</b> {100 * item.proba:.0f} %</span> "
        f"{_chips(item.votes, item.gold)}</p></article>"
    )


def _disagreement(item: Disagreement) -> str:
    return (
        f"<article><h3>{escape(item.item)}</h3>"
        f"<blockquote>{highlighted(item.text, ())}</blockquote>"
        f"<p><span>end model: <b>{escape(item.end_model)}</b> {100 * item.end_proba:.0f} %</span> "
        f"<span>votes: <b>{escape(item.soft_label)}</b> {100 * item.soft_proba:.0f} %</span> "
        f"{_chips(item.votes)}</p></article>"
    )


def _chips(votes: Sequence[tuple[str, str]], gold: str | None = None) -> str:
    """Return each voter's vote, with a tick if it matches the gold label."""
    if not votes:
        return "<small>no votes</small>"
    shown = " ".join(
        f'<span class="chip {_side(vote, gold)}">{_tick(vote, gold)}{escape(voter)}: '
        f"{escape(vote)}</span>"
        for voter, vote in votes[:_LISTED_VOTES]
    )
    more = len(votes) - _LISTED_VOTES
    return f"{shown} <small>and {more} more</small>" if more > 0 else shown


def _side(vote: str, gold: str | None) -> str:
    if gold is None:
        return "plain"
    return "right" if vote == gold else "wrong"


def _tick(vote: str, gold: str | None) -> str:
    if gold is None:
        return ""
    return "\N{CHECK MARK} " if vote == gold else "\N{MULTIPLICATION SIGN} "
