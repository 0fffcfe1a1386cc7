"""Where labeling functions run: on this machine, or on others."""

from wiesel.lfs.engines.base import Engine, Job
from wiesel.lfs.engines.local import LocalEngine

__all__ = ["Engine", "Job", "LocalEngine"]
