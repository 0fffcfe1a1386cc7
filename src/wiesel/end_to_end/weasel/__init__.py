"""WeaSEL: an encoder weighs the voters on every item, trained jointly with the end model."""

from wiesel.end_to_end.weasel.model import WeaSEL
from wiesel.end_to_end.weasel.objective import WeaSELObjective

__all__ = ["WeaSEL", "WeaSELObjective"]
