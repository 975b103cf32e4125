"""Side studies: the paper's tables and figures measured here, with other layers alongside."""

from portfolio_dfl.execution.environment import require_readable_environment

require_readable_environment()  # before Lightning reads it
