"""Labels on disk: at once, by several people, and whatever happens to the process."""

import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from wiesel.errors import DataError
from wiesel.io import RESOLVED, LabelStore

WRITER = """
import sys
from wiesel.io import LabelStore
store = LabelStore(sys.argv[1])
for number in range(10_000):
    store.add(f"m{number}", "spam", "ada")
    print(number, flush=True)
"""


@pytest.fixture
def store(tmp_path):
    return LabelStore(tmp_path / "deep" / "labels.sqlite")


def test_sigkill_loses_no_label_that_was_confirmed(store):
    command = [sys.executable, "-c", WRITER, str(store.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        confirmed = [int(writer.stdout.readline()) for _ in range(30)]
        writer.send_signal(signal.SIGKILL)
        confirmed += [int(line) for line in writer.stdout.read().split()]
    kept = {row["item"] for row in store.labels().to_dicts()}
    assert {f"m{number}" for number in confirmed} <= kept


def test_several_people_label_at_the_same_time(store):
    def label(person):
        for number in range(15):
            store.add(f"m{number}", "spam", person)

    threads = [threading.Thread(target=label, args=(name,)) for name in ("ada", "bob", "cem")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.answers()) == 45
    assert store.labels()["people"].to_list() == [3] * 15


def test_the_last_answer_of_a_person_counts_and_undo_brings_back_the_one_before(store):
    store.add("m1", "spam", "ada")
    store.add("m1", "ham", "ada")
    assert store.labels()["label"].to_list() == ["ham"]
    assert store.undo("ada") == "m1"
    assert store.labels()["label"].to_list() == ["spam"]
    store.undo("ada")
    assert store.undo("ada") is None
    assert len(store.labels()) == 0


def test_undo_takes_back_only_what_that_person_said(store):
    store.add("m1", "spam", "ada")
    store.add("m2", "ham", "bob")
    assert store.undo("ada") == "m1"
    assert store.labels()["item"].to_list() == ["m2"]


def test_a_tie_has_no_label_until_it_is_resolved(store):
    store.add("m1", "spam", "ada")
    store.add("m1", "ham", "bob")
    tied = store.labels().to_dicts()[0]
    assert (tied["label"], tied["agreed"]) == (None, False)
    store.resolve("m1", "ham")
    settled = store.labels().to_dicts()[0]
    assert (settled["label"], settled["agreed"], settled["people"]) == ("ham", True, 2)


def test_the_majority_counts_and_is_marked_as_not_agreed(store):
    for person, label in (("ada", "spam"), ("bob", "spam"), ("cem", "ham")):
        store.add("m1", label, person)
    assert store.labels().to_dicts()[0]["label"] == "spam"
    assert store.labels().to_dicts()[0]["agreed"] is False


def test_a_skipped_item_is_not_shown_again_and_has_no_label(store):
    store.add("m1", None, "ada")
    assert store.seen_by("ada") == {"m1"}
    assert len(store.labels()) == 0


def test_an_item_drawn_for_evaluation_stays_one(store):
    store.add("m1", "spam", "ada", purpose="evaluate")
    store.add("m1", "spam", "bob", purpose="learn")
    assert store.labels()["purpose"].to_list() == ["evaluate"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("", "spam", "ada"), "The item is a text"),
        (("m1", "spam", "  "), "name of the person"),
        (("m1", "spam", "ada", "fun"), "'learn' or 'evaluate'"),
    ],
)
def test_wrong_answers_are_refused(store, given, message):
    with pytest.raises(DataError, match=message):
        store.add(*given)


def test_a_file_that_is_no_database_is_told_and_left_alone(tmp_path):
    path = tmp_path / "labels.sqlite"
    path.write_text("not a database, but long enough to be looked at" * 50)
    with pytest.raises(DataError, match="Keep the file"):
        LabelStore(path).labels()
    assert path.read_text().startswith("not a database")


@pytest.mark.parametrize(
    "answer", [("m\ud83d", "ham", "ada"), ("m", "h\ud83d", "ada"), ("m", " ", "ada")]
)
def test_half_a_character_and_nothing_are_no_answers(store, answer):
    with pytest.raises(DataError, match="is a text that is not empty"):
        store.add(*answer)


@pytest.mark.parametrize("column", ["item", "person", "label", "purpose", "time"])
def test_values_of_other_types_are_refused_with_the_file(store, column):
    store.add("m1", "ham", "ada")
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute(f"UPDATE labels SET {column} = x'ff00'")
    with pytest.raises(DataError, match=r"labels.sqlite holds values that are no labels"):
        store.labels()


def test_nobody_can_take_the_name_of_resolved_disagreements(store):
    store.add("m1", "ham", "ada")
    with pytest.raises(DataError, match=r"No person can be named 'resolved'.*another name"):
        store.add("m1", "spam", RESOLVED)
    assert store.labels()["label"].to_list() == ["ham"]


def test_answers_that_are_undone_at_the_same_time_are_undone_once_each(store):
    for number in range(12):
        store.add(f"m{number}", "ham", "ada")
    with ThreadPoolExecutor(6) as threads:
        undone = list(threads.map(lambda _: store.undo("ada"), range(6)))
    assert sorted(undone) == sorted(f"m{number}" for number in range(6, 12))
    assert len(store.labels()) == 6
