"""A Ray cluster of several nodes on this machine, and the marks of the tests that need one."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest

ON_RAY = [
    pytest.mark.slow,
    # Ray itself is imported by the tests: collecting them should not take seconds.
    pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra ray"),
    pytest.mark.timeout(3600),
    # Ray leaves sockets and log files to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]
"""What every test on a cluster is marked with."""
TRAINING_ON_RAY = [
    *ON_RAY,
    # After two or three epochs a network need not have learned.
    pytest.mark.filterwarnings("ignore::wiesel.errors.CollapseWarning"),
]

PATIENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_worker_niceness": "0",
    "RAY_worker_register_timeout_seconds": "900",
    "RAY_health_check_timeout_ms": "60000",
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "1800",
    "RAY_TRAIN_METRICS_ENABLED": "0",
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
}
"""On a busy machine a worker takes minutes to start, and a living node seconds to answer.
No worker is started before there is work for it, and none for figures that nobody looks at."""


def node(num_cpus: int) -> dict[str, Any]:
    """What a node of the cluster has.

    Not the two processes that a test has no use for: one forwards what workers print, and the
    other starts further machines.
    """
    return {
        "num_cpus": num_cpus,
        "object_store_memory": 80 * 2**20,
        "include_dashboard": False,
        "include_log_monitor": False,
        "no_monitor": True,
    }


@contextmanager
def connected_cluster(n_nodes: int, num_cpus: int) -> Iterator[Any]:
    """Start a cluster to which this process is connected."""
    import ray

    with pytest.MonkeyPatch.context() as patch:
        for name, value in PATIENT.items():
            patch.setenv(name, value)
        own = _started(n_nodes, node(num_cpus))
        try:
            _connect(own)
            yield own
        finally:
            ray.shutdown()
            own.shutdown()


@contextmanager
def disconnected(cluster: Any) -> Iterator[None]:
    """Leave the cluster for a while, for code that connects by itself."""
    import ray

    ray.shutdown()
    try:
        yield
    finally:
        ray.shutdown()
        _connect(cluster)


def added_node(cluster: Any, num_cpus: int) -> Any:
    """Add a node; Ray gives it 30 seconds to start, which a busy machine may exceed."""
    for attempt in range(5):
        try:
            added = cluster.add_node(**node(num_cpus))
            cluster.wait_for_nodes(timeout=900)
        except Exception:  # Ray raises a plain one
            if attempt == 4:
                raise
        else:
            return added


def _connect(cluster: Any) -> None:
    import ray

    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")


def _started(n_nodes: int, options: dict[str, Any]) -> Any:
    from ray.cluster_utils import Cluster

    for _ in range(5):
        own = Cluster()
        try:
            for _ in range(n_nodes):
                own.add_node(**options)
        except Exception:  # noqa: BLE001 - Ray raises a plain one
            own.shutdown()
        else:
            return own
    pytest.fail("the nodes of the cluster did not start")
