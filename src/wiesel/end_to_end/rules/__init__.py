"""Methods that weight rules item by item, with a few gold labels if there are any."""

from wiesel.end_to_end.rules.astra import ASTRA
from wiesel.end_to_end.rules.imply_loss import ImplyLoss

__all__ = ["ASTRA", "ImplyLoss"]
