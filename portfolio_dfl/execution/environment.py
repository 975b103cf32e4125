"""Variables of the environment that libraries read as numbers, mostly when they are imported.

What they say changes nothing here, but what is no number would end in a library's traceback.
"""

from __future__ import annotations

import os

from portfolio_dfl.errors import ConfigError

__all__ = ["require_readable_environment"]

# With the least number that each may be: Lightning's rank in a job, Numba's threads, the processors joblib may use.
_WHOLE: dict[str, int | None] = {
    "RANK": None,
    "LOCAL_RANK": None,
    "SLURM_PROCID": None,
    "JSM_NAMESPACE_RANK": None,
    "NUMBA_NUM_THREADS": 1,
    "LOKY_MAX_CPU_COUNT": None,
    "LOKY_MAX_DEPTH": None,
}


def require_readable_environment() -> None:
    """Raise :class:`ConfigError` if a variable is no whole number where a library will take it for one."""
    for name, least in _WHOLE.items():
        text = os.environ.get(name)
        if text is None or (name == "NUMBA_NUM_THREADS" and not text):  # which Numba takes for its default
            continue
        try:
            number = int(text)
        except ValueError:
            number = None
        if number is None or (least is not None and number < least):
            kind = "a whole number" if least is None else f"a whole number of at least {least}"
            raise ConfigError(f"the environment variable {name} is {text!r}; it must be {kind}: correct or unset it")
