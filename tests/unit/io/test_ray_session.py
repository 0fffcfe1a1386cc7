"""A connection to Ray that fails is told in one sentence."""

from typing import Any

import pytest

from wiesel.errors import ParameterError
from wiesel.io import ray_session


class FailingRay:
    """Stands for the package `ray` where `init` fails, as with a cluster of another version."""

    def init(self, **_: Any) -> None:
        raise RuntimeError("Version mismatch: The cluster was started with:\n    Python: 3.10")


def test_a_failure_inside_ray_is_told() -> None:
    with pytest.raises(ParameterError, match=r"Ray could not start or connect: Version mismatch"):
        ray_session._connect(FailingRay(), None)
    with pytest.raises(ParameterError, match=r"connect to 'auto': .*with: Python: 3.10 Every"):
        ray_session._connect(FailingRay(), "auto")


@pytest.mark.parametrize("address", ["127.0.0.1:99999", "127.0.0.1:9"])
def test_an_address_where_nothing_can_listen_is_told(address: str) -> None:
    with pytest.raises(ParameterError, match=f"{address}"):
        ray_session._connect(FailingRay(), address)
