"""Generated weak-supervision tasks, for choosing defaults on data that nobody tuned to."""
