"""The features that a configuration names, as the objects that policies ask."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import pandas as pd

from portfolio_dfl.config.features import FeatureConfig
from portfolio_dfl.config.study import StudyConfig, StudyLike
from portfolio_dfl.data.parquet import parquet_bytes, read_parquet
from portfolio_dfl.errors import ConfigError, DataError
from portfolio_dfl.strategies.cash import without_cash

if TYPE_CHECKING:
    from portfolio_dfl.data.features import FeatureSet, FeatureTable
    from portfolio_dfl.data.features.collection import Feature

__all__ = [
    "FEATURES",
    "Features",
    "Tables",
    "build_features",
    "read_tables",
    "split_features",
    "table_files",
    "with_tables",
    "write_tables",
]

#: Folder that tables are kept in, beside what they were used with.
FEATURES = "features"

_Table: TypeAlias = Union["FeatureTable", pd.DataFrame, str, os.PathLike[str]]
#: Tables of features by name: frames, files, or tables that are read already.
Tables: TypeAlias = Mapping[str, _Table]
#: These, or mappings, which are sections of a configuration.
Features: TypeAlias = Mapping[str, _Table | Mapping[str, Any]]


def split_features(
    config: StudyLike | None, given: Features | None, sections: Mapping[str, Any]
) -> tuple[StudyConfig, Tables | None]:
    """The configuration with the sections among what is given under ``features`` in Python, and the tables there.

    So that ``run_study(**config.plain())`` is the study of the configuration.

    Raises
    ------
    ConfigError
        If a section cannot be used.
    """
    described = {name: value for name, value in (given or {}).items() if isinstance(value, Mapping)}
    tables = {name: value for name, value in (given or {}).items() if not isinstance(value, Mapping)}
    more = {**sections, "features": described} if described else sections
    return StudyConfig.of(config, **more), tables or None


def with_tables(config: StudyConfig, given: Tables | None) -> StudyConfig:
    """The configuration with sections for tables that are given in Python and say all of themselves.

    Raises
    ------
    ConfigError
        If something else is given under a name that the configuration lacks.
    """
    from portfolio_dfl.data.features import FeatureTable

    added = {}
    for name, table in (given or {}).items():
        if name in config.features:
            continue
        if not isinstance(table, FeatureTable):
            raise ConfigError(
                f"features: {name} is given and not in the configuration, which says when its values were known: add "
                f"features: {{{name}: {{lag: 1}}}}, or give a FeatureTable"
            )
        added[name] = FeatureConfig(lag=table.lag, max_age=table.max_age, missing=table.missing)
    return config.model_copy(update={"features": {**config.features, **added}}) if added else config


def build_features(config: StudyConfig, tickers: Sequence[str], given: Tables | None = None) -> FeatureSet | None:
    """All features of a configuration; None where there are none.

    Parameters
    ----------
    config : StudyConfig
    tickers : sequence of str
    given : mapping, optional
        Tables in place of those that the configuration names.

    Raises
    ------
    ConfigError, DataError
        If a table, a name or an option cannot be used.
    """
    from portfolio_dfl.data.features import FeatureSet

    unknown = [name for name in given or {} if name not in config.features]
    if unknown:
        known = f"there are {', '.join(config.features)}" if config.features else "there are none"
        raise ConfigError(f"features: {', '.join(unknown)} are given and not in the configuration; {known}")
    if not config.features:
        return None
    return FeatureSet(
        tuple(
            _feature(name, section, tuple(without_cash(config, tickers)), (given or {}).get(name))
            for name, section in config.features.items()
        )
    )


def _feature(
    name: str,
    section: FeatureConfig,
    tickers: tuple[str, ...],
    given: FeatureTable | pd.DataFrame | str | os.PathLike[str] | None,
) -> Feature:
    from portfolio_dfl.data.features import BuiltinFeature, FeatureTable, OwnFeature, feature_table, read_feature_file
    from portfolio_dfl.execution.parts import build_part, find_part

    if (section.builtin is not None or section.function is not None) and given is not None:
        raise ConfigError(f"features: {name} is made from returns, and no table can be given for it")
    if section.builtin is not None:
        return BuiltinFeature(name, section.builtin, tickers, section.options, section.missing)
    if section.function is not None:
        found = find_part("feature", section.function, {}, DataError)
        function = build_part("feature", section.function, found, section.options, DataError, takes=["returns"])
        return OwnFeature(name, function, tickers, reach=section.reach, missing=section.missing)
    if isinstance(given, FeatureTable):
        return replace(given, name=name, lag=section.lag or 0, max_age=section.max_age, missing=section.missing)
    origin = section.source if given is None else given
    if origin is None:
        raise ConfigError(
            f"features.{name} has no source: name a file, or give it in Python, features={{{name!r}: frame}}"
        )
    read: dict[str, Any] = {
        "name": name,
        "tickers": tickers,
        "lag": section.lag or 0,
        "known_at": section.known_at,
        "kind": section.kind,
        "columns": section.columns,
        "max_age": section.max_age,
        "missing": section.missing,
    }
    if isinstance(origin, pd.DataFrame):
        return feature_table(origin, **read)
    return read_feature_file(Path(origin), **read)


def write_tables(folder: Path, features: FeatureSet | None) -> None:
    """Keep the tables among features in a folder's folder :data:`FEATURES`."""
    from portfolio_dfl.data.features import FeatureTable

    for feature in () if features is None else features.features:
        if isinstance(feature, FeatureTable):
            place = folder / FEATURES / f"{feature.name}.parquet"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(parquet_bytes(feature.rows))


def table_files(folder: Path) -> list[str]:
    """Files that :func:`write_tables` wrote, seen from the folder."""
    return sorted(path.relative_to(folder).as_posix() for path in (folder / FEATURES).glob("[!.]*.parquet"))


def read_tables(folder: Path) -> dict[str, FeatureTable]:
    """Tables that :func:`write_tables` kept, by name; the rest of each is for the configuration to say."""
    from portfolio_dfl.data.features import FeatureTable

    return {Path(file).stem: FeatureTable(Path(file).stem, read_parquet(folder / file)) for file in table_files(folder)}
