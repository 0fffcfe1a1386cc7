"""Methods that were made for crowds: one file per method, and what they share."""
