"""The paper's tables and figures, and our own studies: definitions, runner, committed results."""
