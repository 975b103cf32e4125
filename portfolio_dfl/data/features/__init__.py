"""Features beside returns: where they come from, when their values were known, and what a decision may see of them."""

from __future__ import annotations

from portfolio_dfl.data.features.builtin import BUILTIN, BuiltinFeature
from portfolio_dfl.data.features.collection import FeatureRows, FeatureSet
from portfolio_dfl.data.features.inspection import FeatureReport, check_features
from portfolio_dfl.data.features.own import OwnFeature
from portfolio_dfl.data.features.reading import feature_table, read_feature_file
from portfolio_dfl.data.features.table import FeatureTable

__all__ = [
    "BUILTIN",
    "BuiltinFeature",
    "FeatureReport",
    "FeatureRows",
    "FeatureSet",
    "FeatureTable",
    "OwnFeature",
    "check_features",
    "feature_table",
    "read_feature_file",
]
