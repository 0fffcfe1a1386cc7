"""Plots as matplotlib figures to save, change, or show in a notebook.

Every function returns a new figure. pyplot is not used, so no figure stays open, and a
notebook shows each figure once. The extra `plots` installs matplotlib.
"""

from wiesel.plots.models import calibration, learning_curves, threshold
from wiesel.plots.voters import agreement, voter_weights, votes_per_voter

__all__ = [
    "agreement",
    "calibration",
    "learning_curves",
    "threshold",
    "voter_weights",
    "votes_per_voter",
]
