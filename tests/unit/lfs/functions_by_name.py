"""Functions that worker processes import by name; a file of tests would make them load pytest."""

import os
import re
import threading
import time

from wiesel import labeling_function
from wiesel.lfs import preprocessor

LOCK = threading.Lock()


@labeling_function
def named(row, limit=100):
    return "spam" if row["n"] > limit else None


@preprocessor
def words(row):
    return row["text"].split()


@labeling_function(uses=words)
def word_count(row):
    return "ham" if len(row["words"]) == 2 else None


@labeling_function
def locked(row):
    with LOCK:
        return "ham" if row["n"] % 2 else None


def late(row):
    return {}[row["n"]] if row["n"] > 250 else None


@labeling_function
def deadly(row):
    if row["n"] == 0:
        os._exit(3)
    return "ham"


@labeling_function
def backtracking(row):
    """Takes years, in compiled code that lets no other thread run."""
    return "spam" if re.match("(a+)+$", "a" * 60 + "b") else None


@labeling_function
def endless(row, on=0):
    while row["n"] == on:
        time.sleep(0.01)
    return "ham"
