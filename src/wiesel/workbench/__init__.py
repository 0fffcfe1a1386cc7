"""The workbench: a web page for the loop of looking, writing, labeling, training and judging."""

from wiesel.workbench.server import serve

__all__ = ["serve"]
