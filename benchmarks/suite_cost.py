"""Shows where the tests spend processor time: a plug-in of pytest, used by `make test-cost`.

Wall time says little on a machine that does other work, too. This counts the processor time of
every test with its fixtures, and that of the processes that ended meanwhile. A process that ends
later counts for the test that ran then. What a test starts and never waits for is not counted.
"""

import resource
from collections import defaultdict
from collections.abc import Generator, Mapping
from typing import Any

import pytest

Cost = tuple[float, float]
"""Seconds of this process, and of its children that have ended."""

_SHOWN = {"folders": 30, "files": 40, "tests": 40}


class SuiteCost:
    """Notes the cost of every test in each worker, and prints the sums of all workers."""

    def __init__(self) -> None:
        self.tests: dict[str, Cost] = {}
        self.before_tests: list[float] = []
        """Seconds of each process up to its first test: importing and collecting."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Note what a test costs."""
        before = _spent()
        if not self.tests:
            self.before_tests.append(sum(before))
        result = yield
        own, children = _spent()
        self.tests[item.nodeid] = (own - before[0], children - before[1])
        return result

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send what a worker has noted to the process that prints it."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:  # this is a worker of pytest-xdist
            output["suite_cost"] = (self.tests, self.before_tests)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Receive what a worker has noted."""
        tests, before_tests = getattr(node, "workeroutput", {}).get("suite_cost", ({}, []))
        self.tests |= {name: tuple(cost) for name, cost in tests.items()}
        self.before_tests += before_tests

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the sums, the largest first."""
        show = terminalreporter.write_line
        terminalreporter.section("processor seconds: own + of processes")
        show(f"{_shown_cost(_total(self.tests))}  {len(self.tests)} tests")
        show(f"{sum(self.before_tests):7.2f}  before the first test of each worker")
        for what, sums in by_place(self.tests).items():
            show(f"\n{what}")
            largest = sorted(sums.items(), key=lambda pair: -sum(pair[1]))[: _SHOWN[what]]
            for name, cost in largest:
                show(f"{_shown_cost(cost)}  {name}")


def pytest_configure(config: pytest.Config) -> None:
    """Register the plug-in."""
    config.pluginmanager.register(SuiteCost(), "wiesel-suite-cost")


def by_place(tests: Mapping[str, Cost]) -> dict[str, dict[str, Cost]]:
    """Return the costs of folders, files and tests; the parameters of a test are added up."""
    found: dict[str, dict[str, Cost]] = {
        name: defaultdict(lambda: (0.0, 0.0)) for name in ("folders", "files", "tests")
    }
    for node, (own, children) in tests.items():
        file = node.partition("::")[0]
        places = (file.rpartition("/")[0], file, node.partition("[")[0])
        for sums, name in zip(found.values(), places, strict=True):
            sums[name] = (sums[name][0] + own, sums[name][1] + children)
    return found


def _spent() -> Cost:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own, children = (usage.ru_utime + usage.ru_stime for usage in usages)
    return own, children


def _total(tests: Mapping[str, Cost]) -> Cost:
    return sum(cost[0] for cost in tests.values()), sum(cost[1] for cost in tests.values())


def _shown_cost(cost: Cost) -> str:
    return f"{sum(cost):7.2f} = {cost[0]:6.2f} + {cost[1]:6.2f}"
