"""Runs the command line as `python -m wiesel`, where the script `wiesel` is not on the path."""

from wiesel.cli.main import main

if __name__ == "__main__":
    main()
