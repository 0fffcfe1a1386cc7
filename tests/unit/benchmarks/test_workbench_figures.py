"""The benchmark of the workbench says what it measured beside the bars."""

from benchmarks import workbench


def cells(row: dict) -> list[list[str]]:
    lines = workbench.results_table([row]).splitlines()[2:]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def test_times_stand_beside_their_bar() -> None:
    timed = [{"seconds": s, "cpu_seconds": s / 2} for s in (0.3, 0.1, 0.2)]
    row = {"case": "preview of a rule", "n_rows": 25_000, "load": 0.5}
    (line,) = cells({**row, "timed": workbench._summed(timed)})
    assert line[1:] == ["200 ms", "0.10 s", "0.20 s", "0.30 s", "0.10 s", "0.5"]


def test_a_first_start_is_measured_once() -> None:
    warm = workbench._summed([{"seconds": 0.5, "cpu_seconds": 0.1}])
    cold = {"seconds": 1.5, "cpu_seconds": 1.0}
    row = {"case": "first page", "n_rows": 100_000, "load": 1.0, "cold": cold, "warm": warm}
    first, later = cells(row)
    assert first[3] == "1.50 s"
    assert later[2:5] == ["0.50 s"] * 3


def test_memory_is_compared_between_an_early_and_the_last_page() -> None:
    marks = [{"page": n, "server_mb": 900.0 + n / 100, "browser_mb": 12.0} for n in (1, 100, 1000)]
    row = {"case": "paging", "n_rows": 100_000, "load": 1.0, "marks": marks, "page_seconds": 0.1}
    server, browser, turn = cells(row)
    assert server[0] == "memory of the server, page 100 and page 1,000"
    assert server[3] == "901 MB, 910 MB"
    assert browser[3] == "12.0 MB, 12.0 MB"
    assert turn[3] == "0.10 s"
