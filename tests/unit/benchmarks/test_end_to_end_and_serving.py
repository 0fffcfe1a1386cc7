"""The benchmarks of whole runs and of the server compare like with like."""

import http.server
import json
import threading
import time

import polars as pl
from benchmarks import end_to_end, serving

from wiesel.lfs import apply_lfs
from wiesel.lfs.loading import load_lfs
from wiesel.project import read_project


def test_both_pipelines_get_the_same_votes(tmp_path):
    folder = tmp_path / "project"
    end_to_end.write_files(folder, 200)
    project = read_project(folder)
    assert project.classes == end_to_end.CLASSES
    rows = pl.read_csv(folder / "train.csv")
    functions = load_lfs(folder / "rules.toml").lfs
    ours = apply_lfs(functions, rows, labels=project.classes).dense()
    for place, each in enumerate(json.loads((folder / "keywords.json").read_text())):
        label = end_to_end.CLASSES.index(each["label"])
        known = set(each["keywords"])
        peer = [-1 if known.isdisjoint(text.split()) else label for text in rows["text"]]
        assert ours[:, place].tolist() == peer
    assert 0.2 < (ours >= 0).any(axis=1).mean() < 0.8


def test_a_stage_that_goes_on_is_one_row():
    stages = end_to_end.Stages()
    for name, wait in (("votes", 0.02), ("features", 0.0), ("votes", 0.02)):
        time.sleep(wait)
        stages.end(name)
    votes, features = stages.rows
    assert (votes["stage"], features["stage"]) == ("votes", "features")
    assert votes["wall"] >= 0.04 > features["wall"]
    assert votes["cpu"] < votes["wall"]


def test_the_table_adds_up_times_and_takes_the_largest_peak():
    stages = [
        {"stage": "votes", "cpu": 1.0, "second_cpu": 0.5, "wall": 2.0, "mb": 300.0},
        {"stage": "features", "cpu": 2.0, "second_cpu": 1.5, "wall": 3.0, "mb": 200.0},
    ]
    rows = [
        {"n_rows": 1000, "package": name, "stages": stages, "accuracy": 0.9}
        for name in ("wiesel", "snorkel")
    ]
    lines = end_to_end.results_table(rows).splitlines()
    total = next(line for line in lines if "all of it" in line)
    assert [cell.strip() for cell in total.split("|")[3:7]] == ["3.0 s", "2.0 s", "5.0 s", "300 MB"]


def test_waiting_for_a_slow_server_counts():
    class Slow(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            time.sleep(0.1)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    # One request at a time: the tenth, due after 0.09 s, is answered after a second.
    with http.server.HTTPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        took = serving.latencies(server.server_port, 100, 0.1, ["one"])
        server.shutdown()
    assert len(took) == 10
    assert max(took) > 800


def test_one_side_is_enough_for_a_table_and_the_slope_of_memory():
    def row(n_rows, mb, accuracy, package="wiesel"):
        stage = {"stage": "votes", "cpu": 1.0, "second_cpu": 0.5, "wall": 2.0, "mb": mb}
        return {"n_rows": n_rows, "package": package, "stages": [stage], "accuracy": accuracy}

    rows = [row(100_000, 500.0, 0.7), row(1_000_000, 1400.0, 0.8)]
    text = end_to_end.results_table([*rows, row(100_000, 500.0, 0.75, end_to_end.TOLD)])
    line = next(
        line for line in text.splitlines() if line.startswith("| 1,000,000") and "vo" in line
    )
    assert [cell.strip() for cell in line.split("|")[3:-1]] == [
        *("1.0 s", "0.500 s", "2.0 s", "1.4 GB"),
        *(end_to_end.UNKNOWN,) * 4,
    ]
    # 900 MB more for 900,000 rows more.
    assert "1.0 GB per million rows" in text or "1000 MB per million rows" in text
    assert "75.0% of the test rows after 100,000 rows instead of 70.0%" in text
    assert end_to_end.quotable_lines(rows) == []
