"""The studies: one file for each table or figure, and what several of them share."""
