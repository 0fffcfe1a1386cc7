"""The page that lists every row of the paper: read from the pages beside it, and up to date."""

from experiments.framework import tables
from experiments.framework.pages import tables_of
from experiments.framework.runner import RESULTS
from experiments.studies import paper, paper_page


def test_tables_are_read_back_with_their_headings(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# page\n\n## First\n\n|   | a | b |\n|---|---|---|\n| *x* (ours) | 1.5 ± 0.1 | - |\n\n"
        "text\n\n## Second\n\n| n | c |\n|---|---|\n| y | +2 (3) |\n| z | |\n"
    )
    first, second = tables_of(page)
    assert (first.heading, second.heading) == ("First", "Second")
    assert first.columns == ("a", "b")
    assert second.number("y", "c") == 2.0
    assert second.number("z", "c") is None
    assert second.number("nobody", "c") is None
    assert second.number("y", "nothing") is None


def test_every_figure_of_the_paper_that_we_know_is_on_the_page():
    lines = [*paper_page.table_1(), *paper_page.ablation()]
    shown = {(row, name): papers for row, name, papers, *_ in lines}
    known = {
        (row, name): figure for row, of in paper.TABLE_1.items() for name, figure in of.items()
    }
    assert len(known) > 30
    for (row, name), figure in known.items():
        # The ablation repeats WeaSEL's row, rounded.
        assert abs(float(shown[row, name].partition(" ")[0]) - figure.mean) < 0.1, (row, name)
    of_ablation = [line for line in paper_page.ablation() if line[1] != "ProfTeacher"]
    assert len(of_ablation) == 3 * len(paper.ABLATION)


def test_the_ablation_is_judged_by_the_distance_to_weasel():
    verdicts = {(line[0], line[1]): line[-1] for line in paper_page.ablation()}
    assert verdicts["votes only", "imdb_136"] == "holds"
    assert verdicts["ReLU", "imdb_136"] == "does not hold"
    assert verdicts["ReLU", "ProfTeacher"] == "cannot be had"


def test_a_figure_is_equal_within_two_pooled_deviations():
    papers = paper.Figure(80.0, 1.0)
    # The root of the mean of 1 and 7^2 is 5: ten points are two of it.
    assert paper_page.judged(89.9, 7.0, papers) == "equal"
    assert paper_page.judged(90.1, 7.0, papers) == "higher"
    assert paper_page.judged(69.9, 7.0, papers) == "lower"
    assert paper_page.judged(80.6, 0.0, paper.Figure(80.0, 0.0)) == "higher"


def test_the_order_of_the_methods_is_compared_in_every_column():
    text = "\n".join(paper_page._orders())
    assert all(f"| {name} " in text and f"**{name}.**" in text for name in paper_page.COLUMNS)


def test_a_run_that_is_missing_is_no_verdict(tmp_path, monkeypatch):
    header = "# page\n\n|   | LSTM, F1 | paper, F1 |\n|---|---|---|\n"
    rows = "| majority vote | - | 40.67 |\n| WeaSEL | 51.50 ± 1.00 | 51.98 |\n"
    (tmp_path / "spouse_lstm.md").write_text(header + rows)
    monkeypatch.setattr(paper_page, "RESULTS", tmp_path)
    assert [line[-1] for line in paper_page.lstm()] == ["not run yet", "equal"]


def test_the_committed_page_is_what_the_command_writes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    paper_page.main([])
    assert "python -m experiments paper" in capsys.readouterr().out
    written, committed = (folder / "paper.md" for folder in (tmp_path, RESULTS))
    assert written.read_text() == committed.read_text(), (
        "A page it is read from has changed: run `python -m experiments paper`."
    )
