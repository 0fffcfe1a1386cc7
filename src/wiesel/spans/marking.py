"""A text with its spans marked, and who voted for them: for a terminal and as HTML."""

import html
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from wiesel.errors import DataError, as_list
from wiesel.spans.reading import runs_of_spans, span_lists
from wiesel.spans.tags import OUTSIDE, Span
from wiesel.spans.votes import TokenVotes, check_token_votes

__all__ = ["MarkedText", "SpanExplanation", "explain_spans", "spans_page"]

_COLORS = ("#ffd7a8", "#bfe3c0", "#c3d7f5", "#f3c6dd", "#e4dbb0", "#cfd3d6")


@dataclass(frozen=True)
class SpanExplanation:
    """One span and the voters that touched it: those for its label, and those against."""

    span: Span
    text: str
    voted_for: tuple[str, ...]
    voted_against: tuple[tuple[str, str], ...]
    """Voters that voted otherwise on its tokens, and for what."""
    right: bool | None = None
    """Whether it is a gold span; None without gold."""

    def __str__(self) -> str:
        sure = "" if self.span.confidence is None else f" ({100 * self.span.confidence:.0f} %)"
        who = ", ".join(self.voted_for) or "nobody"
        against = ", ".join(f"{voter} ({label})" for voter, label in self.voted_against)
        other = f"; against: {against}" if against else ""
        wrong = "wrong: " if self.right is False else ""
        return f"{wrong}{self.span.label}{sure} {self.text!r}: {who}{other}"


@dataclass(frozen=True)
class MarkedText:
    """A document, its spans, and who voted for them; prints as text and displays in a notebook.

    >>> from wiesel.spans import Documents, apply_span_lfs, gazetteer
    >>> documents = Documents.from_texts(["Ada met <Bob>"])
    >>> votes = apply_span_lfs(gazetteer("PER", ["Ada"], name="names"), documents, labels=["PER"])
    >>> marked = explain_spans(votes, [[Span(0, 3, "PER", 0.9)]])[0]
    >>> print(marked)
    0: [Ada PER] met <Bob>
      PER (90 %) 'Ada': names
    >>> "&lt;Bob&gt;" in marked.to_html()
    True
    """

    id: Any
    text: str
    spans: tuple[SpanExplanation, ...]
    labels: tuple[str, ...]
    passed_over: tuple[SpanExplanation, ...] = ()
    """What voters marked in places without a span."""
    missed: tuple[SpanExplanation, ...] = ()
    """The gold spans that were not found."""

    @property
    def n_mistakes(self) -> int:
        """The number of wrong and of missed spans; 0 without gold."""
        return sum(each.right is False for each in self.spans) + len(self.missed)

    def __str__(self) -> str:
        parts, place = [], 0
        for each in self.spans:
            start, end = each.span[:2]
            parts += [self.text[place:start], f"[{self.text[start:end]} {each.span.label}]"]
            place = end
        line = "".join([*parts, self.text[place:]])
        return "\n".join([f"{self.id}: {line}", *(f"  {why}" for why in self._reasons())])

    def _reasons(self) -> list[str]:
        missed = (f"missed: {each}" for each in self.missed)
        passed = (f"passed over: {each}" for each in self.passed_over)
        return [*map(str, self.spans), *missed, *passed]

    def to_html(self) -> str:
        """Return the document as an HTML fragment with all text escaped."""
        parts, place = [], 0
        # A missed span on which another one was found is in the list below the text only.
        found, missed = [each.span for each in self.spans], [each.span for each in self.missed]
        alone = _apart_from(found, set(missed))
        shown = [*self.spans, *(each for each in self.missed if each.span in alone)]
        for each in sorted(shown, key=lambda each: each.span[:2]):
            start, end, label, _ = each.span
            color = _COLORS[self.labels.index(label) % len(_COLORS)]
            style, sign = f"background:{color}", ""
            if each.span in alone:
                style, sign = "background:none;color:inherit;outline:2px dashed #888", "missed "
            elif each.right is False:
                style, sign = f"{style};text-decoration:line-through", "wrong "
            parts.append(html.escape(self.text[place:start]))
            parts.append(
                f'<mark style="{style}" title="{html.escape(str(each))}">'
                f"{html.escape(self.text[start:end])} <sub>{sign}{html.escape(label)}</sub></mark>"
            )
            place = end
        body = "".join(parts) + html.escape(self.text[place:])
        votes = "".join(f"<li>{html.escape(why)}</li>" for why in self._reasons())
        listed = f"<details><summary>who voted</summary><ul>{votes}</ul></details>" if votes else ""
        name = html.escape(str(self.id))
        return f'<div class="wiesel-spans"><p><b>{name}</b> {body}</p>{listed}</div>'

    def _repr_html_(self) -> str:
        return self.to_html()


def explain_spans(
    votes: TokenVotes,
    spans: Sequence[Sequence[tuple[Any, ...]]],
    gold: Sequence[Sequence[tuple[Any, ...]]] | None = None,
) -> list[MarkedText]:
    """Return every document with its spans marked, and who voted for and against each of them.

    With `gold` spans, it shows which of them are wrong, and which gold spans were missed.
    """
    check_token_votes(votes, "explain_spans")
    documents, labels = votes.documents, votes.labels
    true_spans = None if gold is None else span_lists(gold, documents, "gold spans")
    by_voter = [votes.spans(voter) for voter in votes.voters]
    marked = []
    for number, found in enumerate(span_lists(spans, documents)):
        # Every span once, even if several voters marked it.
        voted = {span for each in by_voter for span in each[number]}
        others = _apart_from(found, voted)
        explained, missed = _explained_spans(votes, number, found), []
        if true_spans is not None:
            true, places = {span[:3] for span in true_spans[number]}, {span[:3] for span in found}
            missed = [Span(*place) for place in true - places]
            explained = tuple(replace(each, right=each.span[:3] in true) for each in explained)
        marked.append(
            MarkedText(
                documents.id_of(number),
                documents.texts[number],
                explained,
                labels.names,
                _explained_spans(votes, number, others),
                _explained_spans(votes, number, missed),
            )
        )
    return marked


def _apart_from(found: list[Span], voted: set[Span]) -> list[Span]:
    """The voted spans that share no character with a found one."""
    ordered = sorted(span[:2] for span in found)
    starts = [start for start, _ in ordered]
    reach = list(accumulate((end for _, end in ordered), max, initial=0))
    return [span for span in voted if reach[bisect_left(starts, span.end)] <= span.start]


def _explained_spans(
    votes: TokenVotes, number: int, spans: list[Span]
) -> tuple[SpanExplanation, ...]:
    """Who voted for and against some spans of one document, in the order of the text."""
    documents, ordered = votes.documents, sorted(spans, key=lambda span: span[:3])
    runs = runs_of_spans([ordered], documents.select([number]), votes.labels.names, "The given")
    offset = int(documents.pointers[number])
    places = zip(ordered, runs.first.tolist(), runs.last.tolist(), strict=True)
    return tuple(
        _explained(votes, span, documents.texts[number], slice(first + offset, last + offset))
        for span, first, last in places
    )


def _explained(votes: TokenVotes, span: Span, text: str, tokens: slice) -> SpanExplanation:
    matrix, tags = votes.votes, votes.votes.labels.names
    entries = slice(matrix.indptr[tokens.start], matrix.indptr[tokens.stop])
    voters, classes = matrix.voter_index[entries], matrix.class_index[entries]
    labels_by_voter: dict[str, set[str]] = {}
    for voter, tag in zip(voters.tolist(), classes.tolist(), strict=True):
        name = tags[tag]
        labels_by_voter.setdefault(matrix.voters[voter], set()).add(
            OUTSIDE if name == OUTSIDE else name[2:]
        )
    own = tuple(voter for voter, names in labels_by_voter.items() if span.label in names)
    against = tuple(
        (voter, name)
        for voter, names in labels_by_voter.items()
        for name in sorted(names - {span.label})
    )
    return SpanExplanation(span, text[span.start : span.end], own, against)


def spans_page(marked: Sequence[MarkedText], title: str = "Spans") -> str:
    """Return documents with marked spans as one self-contained HTML page."""
    counts: dict[str, int] = {}
    marked = as_list(marked, "Marked texts", "explain_spans(votes, spans)")
    for document in marked:
        if not isinstance(document, MarkedText):
            raise DataError(
                "Marked texts come from explain_spans(votes, spans); one is "
                f"{type(document).__name__}."
            )
        for each in document.spans:
            counts[each.span.label] = counts.get(each.span.label, 0) + 1
    rows = "".join(
        f"<tr><td>{html.escape(label)}</td><td>{count:,}</td></tr>"
        for label, count in counts.items()
    )
    body = "\n".join(document.to_html() for document in marked)
    style = "body{font:16px/1.6 system-ui;max-width:50em;margin:2em auto;padding:0 1em}"
    style += "mark{border-radius:.25em;padding:.1em .2em}sub{font-size:.65em}td{padding-right:1em}"
    name = html.escape(title)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        f"<style>{style}</style></head><body><h1>{name}</h1>"
        f"<table>{rows}</table>\n{body}\n</body></html>\n"
    )
