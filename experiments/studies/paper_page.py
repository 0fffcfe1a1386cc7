"""Compares every row of the paper's tables, and every figure, with our results.

    python -m experiments paper

Nothing is trained: results are read from the other result pages, which name the commands that write
them. Each verdict follows a rule stated on the page.
"""

from collections.abc import Iterator

from benchmarks.harness import markdown_table

from experiments.framework.pages import PageTable, tables_of
from experiments.framework.runner import RESULTS
from experiments.framework.tables import UNKNOWN, figure_of_paper, write_page
from experiments.studies import paper
from experiments.studies.table1 import OF_PAPER
from experiments.studies.table1 import ROWS as ROWS_OF_TABLE_1

HOLDS, FAILS = "holds", "does not hold"
NOT_HAD, NOT_RUN = "cannot be had", "not run yet"
NEAR = 1.0
"""Points that a result may be below the paper's, or an ablation effect may differ from it."""
LEARNED_FROM_VOTES = ("Snorkel", "Triplet", "Triplet-Mean", "Triplet-Median")

RIVALS = (*LEARNED_FROM_VOTES, "majority vote")
"""The methods that WeaSEL is compared with in table 1."""

HEADER = ("row", "data set", "paper", "ours", "verdict")
Line = tuple[str, str, str, str, str]


def main(argv: list[str]) -> None:
    """Write the page from the pages of the individual studies."""
    sections = {
        "Table 1: test F1 (`python -m experiments table1`)": list(table_1()),
        "Spouse with an LSTM: test F1 (`python -m experiments spouse_lstm`)": list(lstm()),
        "Ablation: test F1 (`python -m experiments ablation`)": list(ablation()),
        "LabelMe: test accuracy (`python -m experiments labelme`)": list(labelme()),
        "Figures": list(figures()),
    }
    lines = [*_introduction(sections)]
    for heading, rows in sections.items():
        lines += ["", f"## {heading}", "", markdown_table(HEADER, rows)]
    write_page("paper", "python -m experiments paper", [*lines, "", *_missing()])


def _introduction(sections: dict[str, list[Line]]) -> Iterator[str]:
    verdicts = [line[-1] for rows in sections.values() for line in rows]
    words = {
        HOLDS: "hold",
        FAILS: "do not hold",
        NOT_HAD: "cannot be had",
        NOT_RUN: "wait for their runs",
    }
    counts = ", ".join(
        f"{verdicts.count(verdict)} {said}"
        for verdict, said in words.items()
        if verdict in verdicts
    )
    yield f"Of {len(verdicts)} rows, {counts}."
    yield ""
    yield f"A figure *holds* if ours is at most {NEAR:g} point below the paper's. A row of the"
    yield "ablation holds if its distance to WeaSEL in the same column is the paper's, within two"
    yield "points: our features, and so all absolute figures, are others. A sentence holds if it is"
    yield "true of our numbers. Figures of the paper are those we know"
    yield "(`experiments/studies/paper.py`); ours are means over seeds, from the pages named."


def judged(ours: float | None, papers: float | None) -> str:
    """Return whether our result matches the paper's.

    >>> judged(81.2, 82.1), judged(80.4, 82.1), judged(None, 80.0), judged(80.0, None)
    ('holds', 'does not hold', 'cannot be had', 'cannot be had')
    """
    if ours is None or papers is None:
        return NOT_HAD
    return HOLDS if ours >= papers - NEAR else FAILS


def table_1() -> Iterator[Line]:
    """Yield the paper's rows and columns next to ours; ProfTeacher is not public."""
    ours = _page("table1")[0]
    for row in ROWS_OF_TABLE_1:
        if row.ours:
            continue
        for name in OF_PAPER:
            found = ours.number(row.title, name)
            papers = paper.TABLE_1.get(row.title, {}).get(name)
            yield row.title, name, figure_of_paper(papers), _two(found), judged(found, papers)
    for title, papers in paper.PROF_TEACHER.items():
        yield title, "ProfTeacher", figure_of_paper(papers), UNKNOWN, NOT_HAD
    for name in OF_PAPER:
        rivals = {title: ours.number(title, name) or 0.0 for title in RIVALS}
        best = max(rivals, key=lambda title: rivals[title])
        ahead = (ours.number("WeaSEL", name) or 0.0) - rivals[best]
        claim, said = "WeaSEL is ahead of all label models", f"{ahead:+.2f} to {best}"
        yield claim, name, "yes", said, HOLDS if ahead > 0 else FAILS


def lstm() -> Iterator[Line]:
    """Yield the rows of spouse with the paper's kind of network; a dash means not run yet."""
    ours = _page("spouse_lstm")[0]
    listed = {row.title for row in ROWS_OF_TABLE_1 if not row.ours}
    for title in ours.rows:
        if title not in listed:
            continue
        found = ours.number(title, "LSTM, F1")
        papers = ours.number(title, "paper, F1")
        verdict = NOT_RUN if found is None else judged(found, papers)
        yield title, "spouse", figure_of_paper(papers), _two(found), verdict


def ablation() -> Iterator[Line]:
    """Yield every row of the ablation; the verdict concerns its distance to WeaSEL."""
    ours = _page("ablation")[0]
    for title, figures_of_row in paper.ABLATION.items():
        for place, name in enumerate(paper.ABLATION_SETS):
            papers, found = figures_of_row[place], ours.number(title, name)
            base, own_base = paper.ABLATION["WeaSEL"][place], ours.number("WeaSEL", name)
            verdict = judged(found, papers) if title == "WeaSEL" else NOT_HAD
            if title != "WeaSEL" and found is not None and own_base is not None:
                off = abs((found - own_base) - (papers - base))
                verdict = HOLDS if off <= 2 * NEAR else FAILS
            yield title, name, figure_of_paper(papers), _two(found), verdict
        papers = paper.ABLATION_OF_PROF_TEACHER[title]
        yield title, "ProfTeacher", figure_of_paper(papers), UNKNOWN, NOT_HAD


def labelme() -> Iterator[Line]:
    """Yield the paper's list of crowd methods."""
    listed = _page("labelme")[0]
    for title in listed.rows:
        papers, found = listed.number(title, "paper"), listed.number(title, "test accuracy")
        yield title, "labelme", figure_of_paper(papers), _two(found), judged(found, papers)


def figures() -> Iterator[Line]:
    """Yield the paper's figures as claims that our numbers confirm or not."""
    copies, coins = _page("duplicates")[0], _page("independent")[0]
    adversaries = _page("adversarial")[0]
    command = "`python -m experiments {}`"
    gold = _gold_of("duplicates")
    gaps = [gold - value for value in _numbers(copies, "WeaSEL")]
    yield _sentence(
        f"copies of a coin, {command.format('duplicates')}",
        "WeaSEL stays at the AUC of gold, however many copies",
        f"at most {max(gaps):.2f} points below gold",
        max(gaps) <= NEAR,
    )
    others = [max(_numbers(copies, name)) for name in LEARNED_FROM_VOTES]
    yield _sentence(
        "the same",
        "Snorkel and the triplet methods fall to about 50",
        f"at most {max(others):.1f}",
        max(others) < 60,
    )
    at_ten = _gold_of("independent") - (coins.number("WeaSEL", "10") or 0.0)
    yield _sentence(
        f"independent coins, {command.format('independent')}",
        "WeaSEL stays at the AUC of gold with up to 10 coins",
        f"{at_ten:.2f} points below gold at 10",
        at_ten <= NEAR,
    )
    at_three = [coins.number(name, "3") or 0.0 for name in LEARNED_FROM_VOTES]
    yield _sentence(
        "the same",
        "Snorkel and the triplet methods collapse from 3 coins on",
        f"{min(at_three):.1f} or more at 3",
        max(at_three) < 60,
    )
    yield _adversarial(adversaries, command.format("adversarial"))


def _adversarial(table: PageTable, command: str) -> Line:
    column = table.columns[-1]
    lost = {name: table.number(name, column) or 0.0 for name in ("WeaSEL", *LEARNED_FROM_VOTES)}
    best = max(LEARNED_FROM_VOTES, key=lambda name: lost[name])
    said = f"WeaSEL {lost['WeaSEL']:+.2f}, the best other ({best}) {lost[best]:+.2f}"
    return _sentence(
        f"ten copies of an adversary, {command}",
        "WeaSEL loses least",
        said,
        lost["WeaSEL"] > lost[best],
    )


def _sentence(what: str, claim: str, ours: str, holds: bool) -> Line:
    return what, "imdb", claim, ours, HOLDS if holds else FAILS


def _missing() -> Iterator[str]:
    yield "## What cannot be had, and why"
    yield ""
    yield "- *A dash in the paper's column*: a figure of the paper that is not at hand, so there is"
    yield "  nothing to compare ours with."
    yield "- *ProfTeacher* is not among the data sets that we hold."
    yield "- *Spouse, gold*: the training rows have no gold labels anywhere. The end model of the"
    yield "  paper's column is an LSTM on tokens; in our table 1 a perceptron on 200 features."
    yield "  [What the paper's figures owe to what](spouse_lstm.md)."
    yield "- *Amazon*: the paper has 160,000 training reviews, ours are 5,500, with its 175 LFs."
    yield "- The first figure of the paper is a drawing of the method: there is nothing to measure."


def _page(name: str) -> list[PageTable]:
    return tables_of(RESULTS / f"{name}.md")


def _gold_of(name: str) -> float:
    """Return the AUC of the network trained on the truth, from the text above a figure's table."""
    text = (RESULTS / f"{name}.md").read_text()
    return float(text.partition("trained on the truth: ")[2].split()[0])


def _numbers(table: PageTable, row: str) -> list[float]:
    found = [table.number(row, column) for column in table.columns]
    return [value for value in found if value is not None]


def _two(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.2f}"
