"""The command line: `main.py` and one file per verb.

A verb parses its options, calls the public API and returns an `Answer`; `verb.py` does the rest.
"""
