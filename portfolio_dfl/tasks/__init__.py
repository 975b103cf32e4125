"""Side studies: the paper's tables and figures measured here, with other layers alongside."""
