"""The workbench in a real browser: the first page, previews of a rule and of the end model, memory.

`wiesel workbench` runs in a separate process, and headless Chromium opens its pages. Times are from
the browser's clock: from the navigation, the text selection or the click until the page shows the
result. The results also include the server's CPU seconds during that time and the load of the
machine. Texts are the embedded movie reviews: 25,000 whole reviews, or 100,000 short passages.
"""

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.harness import (
    ROOT,
    UNKNOWN,
    arguments,
    markdown_table,
    merge_results,
    peak,
    read_results,
    run_module,
    setting,
)

MODULE = "benchmarks.workbench"
PASSAGES, REVIEWS, PAGES = 100_000, 25_000, 1_000
MANY, STEP = 10**6, 25
"""Rows of the largest project, each a passage that begins so many characters after another."""
PATIENCE = 600_000
"""Milliseconds after which an empty page counts as broken."""
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync")
ADDED = ("overrated", "page turner", "must own", "a bore", "so good", "cheap looking")

WATCH = """
(wanted) => new Promise((resolve, reject) => {
  const start = performance.now();
  setTimeout(() => reject(new Error('nothing came of: ' + wanted.act)), 120000);
  const met = new Function('return (' + wanted.until + ')');
  const look = () => {
    if (met()) { requestAnimationFrame(() => resolve(performance.now() - start)); return true; }
  };
  const eyes = new MutationObserver(() => { if (look()) eyes.disconnect(); });
  eyes.observe(document.body, {childList: true, subtree: true, characterData: true});
  new Function(wanted.act)();
})
"""
"""Performs an action and returns the milliseconds until the page shows its result."""

FIRST_ROWS = """
new MutationObserver((_, eyes) => {
  if (document.querySelectorAll('tr.w-open').length) {
    window.firstRows = performance.now(); eyes.disconnect();
  }
}).observe(document, {childList: true, subtree: true});
"""

FIRST_TO_LABEL = """
localStorage.setItem('wiesel-person', 'ada');
new MutationObserver((_, eyes) => {
  if (document.querySelector('.label-row .w-text')?.checkVisibility()) {
    window.firstToLabel = performance.now(); eyes.disconnect();
  }
}).observe(document, {childList: true, subtree: true, attributes: true});
"""

MARK = """
  const box = document.querySelector('.q-dialog .row-text');
  const walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
  let node = null, longest = null;
  while ((node = walker.nextNode())) if (!longest || node.length > longest.length) longest = node;
  const words = [...longest.data.matchAll(/[\\w']{3,}/g)].slice(%d);
  const first = words[0], last = words[%d];
  const range = document.createRange();
  range.setStart(longest, first.index);
  range.setEnd(longest, last.index + last[0].length);
  window.markedWords = longest.data.slice(first.index, last.index + last[0].length);
  getSelection().removeAllRanges(); getSelection().addRange(range);
  box.dispatchEvent(new MouseEvent('mouseup', {bubbles: true}));
"""
"""Selects some words of the open row, starting from a given word."""

PROPOSED = """
  document.querySelector('.q-dialog .lf-words input')?.value === window.markedWords &&
  document.querySelector('.q-dialog .lf-proposal td')?.innerText === window.markedWords &&
  !!document.querySelector('.q-dialog .lf-hits mark')
"""

PROJECT = """\
name = "Movie reviews"
classes = ["negative", "positive"]

[data]
train = "train.parquet"
{dev}
[votes]
lfs = ["lfs.py", "rules.toml"]

[features]
n_dimensions = 300
"""

Timed = dict[str, float]


class Server:
    """`wiesel workbench` in a separate process."""

    def __init__(self, folder: Path) -> None:
        start = time.perf_counter()
        code = "from wiesel.cli.main import main; main()"
        command = [sys.executable, "-c", code, "workbench", str(folder), "--port", "0", "--no-show"]
        with (folder.parent / "server.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        first = self.process.stdout.readline() if self.process.stdout else ""
        if "http://" not in first:
            raise RuntimeError(f"The workbench did not start; see {folder.parent / 'server.log'}.")
        self.address = first.split()[-1].rstrip("/")
        self.start_seconds = time.perf_counter() - start

    @property
    def cpu_seconds(self) -> float:
        """Return the CPU seconds used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def megabytes(self) -> float:
        """Return the current memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1000

    @property
    def peak_megabytes(self) -> float:
        """Return the most memory it had so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1000

    def wait_until_idle(self, quiet_seconds: float = 3.0) -> None:
        """Wait until background computations of a page are done."""
        while True:
            before = self.cpu_seconds
            time.sleep(quiet_seconds)
            if self.cpu_seconds - before < 0.1 * quiet_seconds:
                return

    def stop(self) -> None:
        """Stop the server as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def served(folder: Path) -> Iterator[tuple[Server, Any]]:
    """Yield a server and a browser page with access to it."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("WIESEL_CHROMIUM") or shutil.which("chromium")
    if path is None:
        raise RuntimeError("There is no chromium: run `make browser`, or set WIESEL_CHROMIUM.")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(PATIENCE)
        # Load something first, so that the browser's startup is not measured.
        page.goto("data:text/html,<p>ready</p>")
        server = Server(folder)
        try:
            yield server, page
        finally:
            server.stop()
            browser.close()


def first_page(folder: Path, repeats: int) -> dict[str, Any]:
    """Time the first page right after the first start, then with everything computed."""
    with served(folder) as (server, page):
        page.add_init_script(FIRST_ROWS)
        cold = _opened(server, page)
        server.wait_until_idle()
        warm = [_opened(server, page) for _ in range(repeats)]
        return {
            "start_seconds": server.start_seconds,
            "cold": cold,
            "warm": _summed(warm),
            "server_mb": server.megabytes,
        }


def _opened(server: Server, page: Any) -> Timed:
    busy = server.cpu_seconds
    page.goto(server.address)
    page.wait_for_function("window.firstRows")
    milliseconds = page.evaluate("window.firstRows")
    return {"seconds": milliseconds / 1000, "cpu_seconds": server.cpu_seconds - busy}


def paging(folder: Path, n_pages: int) -> dict[str, Any]:
    """Turn many pages, and record the memory of the server and of the page."""
    with served(folder) as (server, page):
        page.goto(server.address)
        page.wait_for_selector("tr.w-open")
        server.wait_until_idle()
        devtools = page.context.new_cdp_session(page)
        marks = [_memory(server, page, devtools, 1)]
        times = []
        for number in range(2, n_pages + 1):
            until = (
                f"document.querySelector('.data-page')?.innerText.startsWith('page {number:,} ')"
            )
            act = "document.querySelector('.data-next').click()"
            times.append(page.evaluate(WATCH, {"until": until, "act": act}) / 1000)
            if number % (n_pages // 10) == 0:
                marks.append(_memory(server, page, devtools, number))
        half = marks[len(marks) // 2]
        return {
            "marks": marks,
            "page_seconds": statistics.median(times),
            "grown_mb": marks[-1]["server_mb"] - marks[1]["server_mb"],
            "grown_second_half_mb": marks[-1]["server_mb"] - half["server_mb"],
            "browser_grown_mb": marks[-1]["browser_mb"] - marks[1]["browser_mb"],
        }


def _memory(server: Server, page: Any, devtools: Any, number: int) -> dict[str, float]:
    devtools.send("HeapProfiler.collectGarbage")
    heap = devtools.send("Runtime.getHeapUsage")["usedSize"] / 1e6
    elements = page.evaluate("document.querySelectorAll('*').length")
    return {
        "page": number,
        "server_mb": server.megabytes,
        "browser_mb": heap,
        "elements": elements,
    }


def many_rows(folder: Path, n_keys: int) -> dict[str, Any]:
    """Open very many rows for the first time, label at once, look at all pages; record memory."""
    with served(folder) as (server, page):
        page.add_init_script(FIRST_ROWS)
        found: dict[str, Any] = {"start_seconds": server.start_seconds}
        found |= {"first_page": _opened(server, page), "opened_mb": server.megabytes}
        page.add_init_script(FIRST_TO_LABEL)
        page.goto(f"{server.address}/label")
        page.wait_for_function("window.firstToLabel")
        found["first_row_seconds"] = page.evaluate("window.firstToLabel") / 1000
        # Features and votes are computed in the meantime, which is when keys may be slow.
        found["keys_at_once"] = _summed([_key(server, page, k) for k in range(n_keys)])
        server.wait_until_idle()
        found["keys"] = _summed([_key(server, page, n_keys + k) for k in range(n_keys)])
        for address in ("/lfs", "/map", "/train", "/results", "/"):
            page.goto(server.address + address)
            page.wait_for_timeout(2_000)
            server.wait_until_idle()
        heap = page.context.new_cdp_session(page).send("Runtime.getHeapUsage")["usedSize"] / 1e6
        used = {"server_mb": server.megabytes, "peak_mb": server.peak_megabytes}
        return found | used | {"browser_mb": heap, "cpu_seconds": server.cpu_seconds}


def _key(server: Server, page: Any, number: int) -> Timed:
    key = "{key: '%s', code: 'Digit%s', bubbles: true}".replace("%s", str(1 + number % 2))
    act = f"document.body.dispatchEvent(new KeyboardEvent('keydown', {key}))"
    until = f"document.querySelector('.label-count')?.innerText.startsWith('{number + 1} ')"
    timed = _timed(server, page, act, until)
    page.wait_for_timeout(150)
    return timed


def rule_preview(folder: Path, repeats: int) -> dict[str, Any]:
    """Time from selecting words in an open row until their proposals appear below it."""
    with served(folder) as (server, page):
        page.goto(server.address)
        page.wait_for_selector("tr.w-open")
        server.wait_until_idle()
        page.click("tr.w-open >> nth=0")
        page.wait_for_selector(".q-dialog .row-text")
        timed = []
        for number in range(max(6, 3 * repeats)):
            act = MARK % (3 * number, number % 2)
            timed.append(_timed(server, page, act, PROPOSED))
            page.wait_for_timeout(400)
        return {"timed": _summed(timed)}


def end_preview(folder: Path, repeats: int) -> dict[str, Any]:
    """Time from adding a labeling function until the end model's preview includes it."""
    with served(folder) as (server, page):
        page.goto(f"{server.address}/lfs")
        page.wait_for_selector(".lf-table tbody tr")
        page.wait_for_function(
            "/linear model/.test(document.querySelector('.end-preview').innerText)"
        )
        server.wait_until_idle()
        timed = []
        for words in ADDED[: max(3, repeats)]:
            page.fill(".lf-maker .lf-words input", words)
            page.wait_for_selector(".lf-maker .lf-proposal")
            server.wait_until_idle(1.0)
            before = page.inner_text(".end-preview")
            until = (
                "/linear model/.test(document.querySelector('.end-preview').innerText) && "
                f"document.querySelector('.end-preview').innerText !== {json.dumps(before)}"
            )
            act = "document.querySelector('.lf-maker .lf-proposal button').click()"
            timed.append(_timed(server, page, act, until))
            server.wait_until_idle(1.0)
        return {"timed": _summed(timed)}


def _timed(server: Server, page: Any, act: str, until: str) -> Timed:
    busy = server.cpu_seconds
    milliseconds = page.evaluate(WATCH, {"act": act, "until": until})
    return {"seconds": milliseconds / 1000, "cpu_seconds": server.cpu_seconds - busy}


def _summed(timed: Sequence[Timed]) -> dict[str, float]:
    """Return best, median and worst seconds, and the median of the server's CPU seconds."""
    seconds = [each["seconds"] for each in timed]
    return {
        "best_seconds": min(seconds),
        "seconds": statistics.median(seconds),
        "worst_seconds": max(seconds),
        "cpu_seconds": statistics.median(each["cpu_seconds"] for each in timed),
        "n": len(timed),
    }


def write_project(folder: Path, n_rows: int, whole: bool) -> None:
    """Write a project of reviews: whole reviews with dev labels, or passages."""
    import polars as pl

    from wiesel.datasets import load_movie_reviews

    reviews = load_movie_reviews()
    texts = [text for name in reviews.splits for text in reviews.splits[name].texts]
    if not whole:
        starts = range(0, 240, 240 if n_rows <= PASSAGES else STEP)
        texts = [
            text[k : k + 240]
            for start in starts
            for text in texts
            for k in range(start, len(text) - 240, 240)
        ]
    folder.mkdir(parents=True)
    pl.DataFrame({"id": [f"row_{k}" for k in range(n_rows)], "text": texts[:n_rows]}).write_parquet(
        folder / "train.parquet"
    )
    dev = reviews.splits["valid"]
    gold = [reviews.labels.names[k] for k in dev.gold]
    rows = pl.DataFrame({"id": [f"dev_{k}" for k in range(len(gold))], "text": dev.texts})
    rows.with_columns(pl.Series("label", gold)).write_parquet(folder / "dev.parquet")
    (folder / "wiesel.toml").write_text(PROJECT.format(dev='dev = "dev.parquet"\n'))
    shutil.copyfile(ROOT / "examples" / "movies" / "lfs.py", folder / "lfs.py")
    (folder / "rules.toml").write_text("")


CASES: dict[str, Callable[[Path, dict[str, int]], dict[str, Any]]] = {
    "first page": lambda folder, job: first_page(folder, job["repeats"]),
    "paging": lambda folder, job: paging(folder, job["pages"]),
    "many rows": lambda folder, job: many_rows(folder, 10 * job["repeats"]),
    "preview of a rule": lambda folder, job: rule_preview(folder, job["repeats"]),
    "preview of the end model": lambda folder, job: end_preview(folder, job["repeats"]),
}


def measured(job: dict[str, Any]) -> dict[str, Any]:
    """Measure one case in this process."""
    return CASES[job["case"]](Path(job["folder"]), job)


def main(argv: Sequence[str] = ()) -> None:
    """Run the measurements; store the results unless `--quick`."""
    options = arguments(argv)
    rows = read_results("workbench")
    if not options.show:
        rows = []
        passages, reviews, pages = (
            (5_000, 2_000, 50) if options.quick else (PASSAGES, REVIEWS, PAGES)
        )
        with tempfile.TemporaryDirectory() as place:
            for case in [name for name in CASES if options.only in name]:
                n_rows = passages if case in ("first page", "paging") else reviews
                n_rows = MANY if case == "many rows" and not options.quick else n_rows
                folder = Path(place) / str(n_rows) / "project"
                if not folder.exists():
                    write_project(folder, n_rows, whole=n_rows == reviews)
                job = {"case": case, "folder": str(folder), "pages": pages}
                load = os.getloadavg()[0]
                found = run_module(MODULE, "wiesel", {**job, "repeats": options.repeats}, False)
                about = {"case": case, "n_rows": n_rows, "n_pages": pages, "load": load}
                rows.append({**about, **found, **setting(), "threads": "as a user has them"})
        if not options.quick:
            merge_results("workbench", rows)
    print(results_table(rows))


def results_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the Markdown table: the measurements and their bars."""
    lines = [
        (*line, f"{row['load']:.1f}")
        for name in CASES
        for row in rows
        if row["case"] == name
        for line in _lines(row)
    ]
    header = ("what", "bar", "best", "median", "worst", "server's CPU", "load before")
    return markdown_table(header, lines)


def _lines(row: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    n_rows = f"{row['n_rows']:,}"
    if row["case"] == "first page":
        cold = row["cold"]
        what = f"first page of {n_rows} rows"
        yield _line(f"{what}, first start, nothing computed", "2 s", _once(cold))
        yield _line(f"{what}, later", "2 s", row["warm"])
        return
    if row["case"] == "paging":
        first, last = row["marks"][1], row["marks"][-1]
        what = f"memory of the server, page {first['page']:.0f} and page {last['page']:,.0f}"
        grown = f"{peak(first['server_mb'])}, {peak(last['server_mb'])}"
        yield (what, "flat", UNKNOWN, grown, UNKNOWN, UNKNOWN)
        heap = f"{first['browser_mb']:.1f} MB, {last['browser_mb']:.1f} MB"
        yield ("memory of the page in the browser", "flat", UNKNOWN, heap, UNKNOWN, UNKNOWN)
        turn = f"{row['page_seconds']:.2f} s"
        yield (f"turning a page of {n_rows} rows", "", UNKNOWN, turn, UNKNOWN, UNKNOWN)
        return
    if row["case"] == "many rows":
        yield _line(
            f"first page of {n_rows} rows, nothing computed", "2 s", _once(row["first_page"])
        )
        label = _once({"seconds": row["first_row_seconds"], "cpu_seconds": None})
        yield _line("then the first row to label", "at once", label)
        yield _line(
            "a labeling key, while votes and features are computed", "50 ms", row["keys_at_once"]
        )
        yield _line("a labeling key, later", "50 ms", row["keys"])
        names = ("opened_mb", "server_mb", "peak_mb")
        marks = ", ".join(peak(row[name]) for name in names)
        what = "memory of the server: at first, after all pages, peak"
        yield (what, "flat", UNKNOWN, marks, UNKNOWN, UNKNOWN)
        return
    what = {"preview of a rule": "words marked in a text, to proposals with examples"}
    title = what.get(row["case"], "a labeling function added, to the end model's preview")
    bar = "200 ms" if row["case"] == "preview of a rule" else "1 s"
    yield _line(f"{title}, {n_rows} reviews", bar, row["timed"])


def _once(timed: dict[str, Any]) -> dict[str, Any]:
    return {**timed, "best_seconds": None, "worst_seconds": None}


def _line(what: str, bar: str, timed: dict[str, Any]) -> tuple[str, ...]:
    figures = [timed[name] for name in ("best_seconds", "seconds", "worst_seconds", "cpu_seconds")]
    return (what, bar, *(UNKNOWN if f is None else f"{f:.2f} s" for f in figures))


if __name__ == "__main__":
    print(json.dumps(measured(json.loads(sys.stdin.read()))))
