"""The workbench: a web app to inspect data, write LFs, label, train and evaluate."""

from wiesel.workbench.server import serve

__all__ = ["serve"]
