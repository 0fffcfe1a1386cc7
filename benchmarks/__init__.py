"""Side-by-side timing and accuracy against other packages: `python -m benchmarks --list`."""
