"""The studies: one file per table or figure, and shared modules."""
