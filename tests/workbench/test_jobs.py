"""Training processes that are started at the same moment: each has its own run, or is refused."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from tiny_project import tiny_project
from wiesel.errors import ParameterError
from wiesel.project.runs import claim_run, run_folder
from wiesel.project.settings import Project, read_project
from wiesel.workbench.jobs import Jobs


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return read_project(tiny_project(tmp_path))


@pytest.fixture
def servers(project: Project) -> Iterator[list[Jobs]]:
    made = [Jobs(project), Jobs(project)]
    yield made
    for jobs in made:
        if jobs.running is not None:
            jobs.running[1].kill()
            jobs.running[1].wait()


def test_of_starts_at_the_same_moment_one_trains_and_the_others_are_refused(
    project: Project, servers: list[Jobs]
):
    jobs, together = servers[0], Barrier(4)

    def start(seed: int) -> str:
        together.wait()
        try:
            return jobs.start(["majority_vote"], {}, [seed])
        except ParameterError as error:
            return str(error)

    with ThreadPoolExecutor(4) as threads:
        told = list(threads.map(start, range(4)))
    started = [name for name in told if "training already" not in name]
    assert started == [jobs.current()]
    assert [folder.name for folder in run_folder(project).iterdir()] == started
    jobs.cancel()  # Stop reaches the one process that there is
    jobs.running[1].wait(timeout=120)
    assert jobs.current() is None


def test_runs_that_two_servers_start_at_the_same_moment_have_folders_of_their_own(
    project: Project, servers: list[Jobs]
):
    together = Barrier(2)

    def start(number: int) -> str:
        together.wait()
        return servers[number].start(["majority_vote"], {}, [number])

    with ThreadPoolExecutor(2) as threads:
        names = list(threads.map(start, range(2)))
    seeds = [json.loads((run_folder(project) / n / "request.json").read_bytes()) for n in names]
    assert [request["seeds"] for request in seeds] == [[0], [1]]
    assert len(set(names)) == 2


def test_a_name_is_claimed_once_by_many_at_once(project: Project):
    with ThreadPoolExecutor(8) as threads:
        folders = list(threads.map(lambda _: claim_run(project), range(40)))
    assert len(set(folders)) == 40


def test_a_run_that_is_stopped_while_its_process_starts_has_not_failed(
    project: Project, servers: list[Jobs]
):
    """Its interpreter dies of the interrupt, with a traceback or without, and can tell nothing."""
    name = servers[0].start(["majority_vote"], {}, [0])
    servers[0].cancel()
    servers[0].running[1].wait(timeout=120)
    for jobs in servers:  # another server knows it from the files
        found = jobs.progress(name)
        assert (found.end, found.error) == ("stopped before training began", "")


class EndsInBetween(Jobs):
    """The training process ends at the very moment when it is asked for."""

    def current(self) -> str | None:
        if self.running is not None:
            self.running[1].wait(timeout=120)
        return super().current()


def test_a_run_that_ends_while_it_is_looked_at_has_not_failed(project: Project):
    jobs = EndsInBetween(project)
    name = jobs.start(["majority_vote"], {}, [0])
    found = jobs.progress(name)
    assert (found.end, found.error) == ("finished", "")
    # Before the first epoch, it told how far the features were.
    told = (run_folder(project) / name / "progress.jsonl").read_text()
    assert told.index("tfidf features: 0 of") < told.index('"epoch"')
