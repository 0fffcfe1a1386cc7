"""The framework of the studies: stored runs, methods by name, tables and figures."""
