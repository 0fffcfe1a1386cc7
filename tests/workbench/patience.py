"""How long tests wait for a page."""

import os

PATIENCE = int(os.environ.get("WIESEL_PATIENCE", "300000"))
"""Milliseconds to wait for something on a page: a busy machine is slow, a hung page is hung."""
