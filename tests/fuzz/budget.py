"""How long the fuzzers try: an hour in `make fuzz`, a fixed number of times in `make test`."""

import os

SHARES = {
    "tables": 0.04,
    "parquet": 0.06,
    "vote folders": 0.05,
    "project files": 0.04,
    "verbs": 0.05,
    "killed saves": 0.03,
    "killed runs": 0.05,
    "killed applies": 0.05,
    "label models": 0.07,
    "end-to-end methods": 0.05,
    "class orders": 0.03,
    "shuffled ids": 0.03,
    "concurrent writers": 0.05,
    "two servers": 0.06,
    "saved models": 0.07,
    "saved again": 0.01,
    "bundles": 0.07,
    "files beside a model": 0.01,
    "rules": 0.05,
    "conditions": 0.02,
    "multi-label rules": 0.02,
    "multi-label votes": 0.03,
    "annotated texts": 0.03,
    "models of spans": 0.03,
}
"""How much of the time each fuzzer has; together all of it."""


def fuzz_seconds(name: str) -> float:
    """Return a fuzzer's share of the seconds in WIESEL_FUZZ_SECONDS; none where it is not set."""
    return SHARES[name] * float(os.environ.get("WIESEL_FUZZ_SECONDS", "0"))
