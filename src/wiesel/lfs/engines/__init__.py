"""Engines that run labeling functions, on this machine or on others."""

from wiesel.lfs.engines.local import Engine, Job, LocalEngine
from wiesel.lfs.engines.ray_engine import RayEngine

__all__ = ["Engine", "Job", "LocalEngine", "RayEngine"]
