"""How long tests wait for a page."""

PATIENCE = 300_000
"""Milliseconds to wait for something on a page: a busy machine is slow, a hung page is hung."""
