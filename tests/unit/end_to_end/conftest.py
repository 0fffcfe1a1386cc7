"""Lets the tests in the folders below import the helpers here: pytest adds this folder's path."""
