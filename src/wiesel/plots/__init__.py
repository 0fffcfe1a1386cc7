"""Plots as matplotlib figures: save them, change them, or let a notebook show them.

Every function returns a new figure. pyplot is not used, so no figure stays open and a
notebook shows each once. matplotlib is the extra `plots`.
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
