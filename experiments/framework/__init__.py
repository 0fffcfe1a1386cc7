"""What studies are written with: runs that are kept, methods by name, tables and figures."""
