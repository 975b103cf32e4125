"""Look at what a study would see before it is run: its prices, and its features at their sessions."""

from __future__ import annotations

from dataclasses import dataclass

from portfolio_dfl.config.study import StudyLike
from portfolio_dfl.data.features import FeatureReport, check_features
from portfolio_dfl.data.inspection import CheckReport, check_prices
from portfolio_dfl.data.sources import open_source
from portfolio_dfl.notebook import PrintedResult
from portfolio_dfl.strategies.features import Features, build_features, split_features, with_tables
from portfolio_dfl.study.given import own_sources
from portfolio_dfl.study.span import load_panel

__all__ = ["StudyCheck", "check_study"]


@dataclass(frozen=True)
class StudyCheck(PrintedResult):
    """Outcome of a check; ``print`` it.

    Attributes
    ----------
    prices : CheckReport
    features : FeatureReport or None
        None where the study has none, or its prices cannot be used.
    """

    prices: CheckReport
    features: FeatureReport | None

    @property
    def usable(self) -> bool:
        """Whether neither prices nor features are refused."""
        return self.prices.usable and (self.features is None or self.features.usable)

    def __str__(self) -> str:
        if self.features is None:
            return str(self.prices)
        refused = ", ".join(self.features.failures)
        verdict = (
            f"values of {refused} are missing, which a study that needs them refuses"
            if refused
            else "complete from their first dates on"
        )
        return f"{self.prices}\n\nfeatures, as known at the close of each session: {verdict}\n{self.features}"


def check_study(config: StudyLike, *, features: Features | None = None) -> StudyCheck:
    """Run every check on the prices and the features of a study.

    Parameters
    ----------
    config : StudyConfig, path or mapping
    features : mapping, optional
        Tables in place of those that the configuration names.

    Raises
    ------
    PortfolioError
        If something cannot be read at all.
    """
    study, tables = split_features(config, features, {})
    study = with_tables(study, tables)
    own_sources(study)
    section = study.data
    source = open_source(section.source, tickers=section.tickers, start=section.start, end=section.end)
    report = check_prices(
        source.load(),
        name=section.source,
        tickers=section.tickers,
        start=section.start,
        end=section.end,
        calendar=section.calendar,
        policies=section.policies,
    )
    if not report.usable or not study.features:
        return StudyCheck(report, None)
    panel = load_panel(study)
    found = build_features(study, list(panel.tickers), tables)
    return StudyCheck(report, None if found is None else check_features(found, panel.returns))
