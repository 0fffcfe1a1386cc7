"""The contracts that every method keeps, for our own tests and for authors of further methods."""

from wiesel.testing.contract import ContractError
from wiesel.testing.end_to_end import check_end_to_end

__all__ = ["ContractError", "check_end_to_end"]
