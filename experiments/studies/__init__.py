"""The studies: one file for each table or figure, and modules that several share."""
