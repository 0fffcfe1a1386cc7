"""The command line: `main.py` and one file for every verb.

A verb parses, calls the public API and returns an `Answer`; `verb.py` does everything else.
"""
