"""Strategies of the user's own: policies named ``package.module:Name``, and policies given as objects in Python.

An object is kept as bytes from the start of its study, so that every walk, resumption and process begins with the same.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from portfolio_dfl.config.names import given_name
from portfolio_dfl.errors import BacktestError, ConfigError
from portfolio_dfl.execution.parts import build_part, find_part

if TYPE_CHECKING:
    from portfolio_dfl.backtest import Policy

__all__ = ["build_own_policy", "freeze_policies", "modules_of", "thaw_policies"]


def build_own_policy(name: str, label: str, options: Mapping[str, Any], given: Mapping[str, bytes]) -> Policy:
    """A fresh policy of a strategy that is not in the table.

    Parameters
    ----------
    name, label : str
        In the configuration, and in tables.
    options : mapping
        Arguments of one that is named by its module.
    given : mapping of str to bytes
        Objects that were given in Python, by their names, see :func:`freeze_policies`.

    Raises
    ------
    ConfigError
        If it was given in Python, and is not there.
    BacktestError
        If it cannot be imported or made, or is no policy.
    """
    from portfolio_dfl.backtest.own_policy import OwnPolicy

    key = given_name(name)
    if key is None:
        found = find_part("strategy", name, {}, BacktestError)
        made = build_part("strategy", name, found, options, BacktestError, takes=["history", "held"], method="decide")
        return OwnPolicy(made, label)
    if key not in given:
        raise ConfigError(
            f"strategy {name!r} is an object that a study was given in Python: give it again, "
            f"run_study(..., strategies={{{key!r}: policy}})"
        )
    try:
        policy = pickle.loads(given[key])
    except Exception as error:  # whatever its own code raises
        raise BacktestError(f"strategy {key!r} cannot be unpickled: {error}") from error
    return OwnPolicy(policy, label)


def freeze_policies(strategies: Mapping[str, Any]) -> dict[str, bytes]:
    """Policies as bytes, by name; classes and functions of notebooks and scripts are part of them.

    Raises
    ------
    BacktestError
        If one is no policy.
    ConfigError
        If one cannot be pickled.
    """
    import cloudpickle

    from portfolio_dfl.backtest.own_policy import OwnPolicy

    frozen = {}
    for key, policy in strategies.items():
        OwnPolicy(policy, str(key))
        try:
            frozen[key] = cloudpickle.dumps(policy)
        except Exception as error:  # pickling asks objects, which may raise anything
            raise ConfigError(
                f"strategy {key!r} cannot be kept with the run: {error}; what it holds must be picklable"
            ) from error
    return frozen


def thaw_policies(content: bytes) -> dict[str, bytes]:
    """What a run keeps of :func:`freeze_policies`."""
    found: dict[str, bytes] = pickle.loads(content)
    return found


def modules_of(strategies: Mapping[str, Any]) -> list[str]:
    """Modules that the policies' code is in."""
    kinds = [policy if hasattr(policy, "__qualname__") else type(policy) for policy in strategies.values()]
    return [str(kind.__module__) for kind in kinds if kind.__module__ != "__main__"]
