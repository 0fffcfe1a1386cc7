"""Rules that are weighed item by item, with a few gold labels where there are any."""

from wiesel.end_to_end.rules.astra import ASTRA
from wiesel.end_to_end.rules.imply_loss import ImplyLoss

__all__ = ["ASTRA", "ImplyLoss"]
