"""Labeling functions: writing them, running them, and looking at what they say."""

from wiesel.lfs.apply import apply_lfs
from wiesel.lfs.cache import VoteCache
from wiesel.lfs.engines import LocalEngine
from wiesel.lfs.failures import Failure, FailureLog, LabelingFunctionWarning
from wiesel.lfs.function import LabelingFunction
from wiesel.lfs.preprocessing import Preprocessor, preprocessor
from wiesel.lfs.python_function import PythonFunction, labeling_function
from wiesel.lfs.text_rules import Keywords, Regex, keywords, regex

__all__ = [
    "Failure",
    "FailureLog",
    "Keywords",
    "LabelingFunction",
    "LabelingFunctionWarning",
    "LocalEngine",
    "Preprocessor",
    "PythonFunction",
    "Regex",
    "VoteCache",
    "apply_lfs",
    "keywords",
    "labeling_function",
    "preprocessor",
    "regex",
]
