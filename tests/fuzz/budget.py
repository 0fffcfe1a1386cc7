"""How long the fuzzers try: seconds in `make test`, an hour in `make fuzz`."""

import os


def fuzz_seconds(share: float = 1.0) -> float:
    """Return a share of the seconds in WIESEL_FUZZ_SECONDS; 8 in all where it is not set."""
    return share * float(os.environ.get("WIESEL_FUZZ_SECONDS", "8"))
