"""The contracts that every method must satisfy, for our tests and for authors of new methods."""

from wiesel.testing.end_to_end import check_end_to_end
from wiesel.testing.label_models import check_label_model
from wiesel.testing.modules import ContractError
from wiesel.testing.scikit_learn import check_scikit_learn

__all__ = ["ContractError", "check_end_to_end", "check_label_model", "check_scikit_learn"]
