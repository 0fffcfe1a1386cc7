"""Conditions as text: the small language of expressions in rules files.

It has columns, constants, comparisons, arithmetic and the functions in `functions.FUNCTIONS`,
and nothing else, so an untrusted condition can neither open a file nor run code.
"""

from wiesel.lfs.conditions.parser import parse_condition
from wiesel.lfs.conditions.terms import FUNCTIONS

__all__ = ["FUNCTIONS", "parse_condition"]
