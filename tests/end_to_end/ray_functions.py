"""Labeling functions for a cluster.

Apart from the tests, because every process of the cluster imports this module, and need not load
what the tests compare with.
"""

import os
import time
from pathlib import Path

import polars as pl

from wiesel.lfs import labeling_function, preprocessor

PATIENCE = 900
"""Seconds that labeling functions wait for the test before they give up."""


@preprocessor
def words(row):
    return row["text"].split()


@labeling_function(uses=words)
def wordy(row, limit=3):
    return "ham" if len(row["words"]) > limit else None


@labeling_function
def unsure(row):
    return {"ham": 0.25, "spam": 0.75} if row["n"] % 4 == 0 else None


@labeling_function(vectorized=True)
def long_text(frame):
    return frame.select(
        pl.when(pl.col("text").str.len_chars() > 12).then(pl.lit("ham")).otherwise(None)
    ).to_series()


@labeling_function
def fails_late(row):
    return "spam" if 1 / (row["n"] - 31) > 5 else None


@labeling_function
def off_the_list(row):
    return "eggs" if row["n"] == 22 else None


@labeling_function
def patient(row, folder=""):
    """Votes on the first rows at once; on the others it says where it is and waits."""
    if row["n"] >= 16:
        import ray

        node = ray.get_runtime_context().get_node_id()
        Path(folder, f"{row['n']}-on-{node}").touch()
        until = time.monotonic() + PATIENCE
        while not Path(folder, "go").exists() and time.monotonic() < until:
            time.sleep(0.05)
    return "spam" if row["n"] % 3 == 0 else None


@labeling_function
def deadly(row, on=17):
    if row["n"] == on:
        os._exit(3)
    return "spam" if row["n"] % 2 else None


@labeling_function
def endless(row, on=17):
    while row["n"] == on:
        pass
    return "spam" if row["n"] % 2 else None
