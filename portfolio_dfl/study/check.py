"""Look at what a study would see before it is run: its prices, and its features at their sessions."""

from __future__ import annotations

from dataclasses import dataclass

from portfolio_dfl.config.study import StudyConfig, StudyLike
from portfolio_dfl.data.features import FeatureReport, check_features
from portfolio_dfl.data.inspection import CheckReport, check_prices
from portfolio_dfl.data.sources import open_source
from portfolio_dfl.notebook import PrintedResult
from portfolio_dfl.strategies.features import Features, build_features, split_features, with_tables
from portfolio_dfl.study.given import own_sources
from portfolio_dfl.study.span import load_panel, load_spells

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

    Where members change, features are checked as the study begins.

    Raises
    ------
    PortfolioError
        If something cannot be read at all, or a member has no price on a session.
    """
    study, tables = split_features(config, features, {})
    study = with_tables(study, tables)
    own_sources(study)
    if study.data.members is not None:
        return StudyCheck(_check_changing(study), None)
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


def _check_changing(study: StudyConfig) -> CheckReport:
    """Every check on the prices of those who are members at some time."""
    from portfolio_dfl.data.member_panel import check_members, require_priced

    section, spells = study.data, load_spells(study)
    assert spells is not None
    columns = list(dict.fromkeys(spell.column for spell in spells))
    seen, cleaned = check_members(
        open_source(section.source, tickers=columns, start=section.start, end=section.end).load(),
        spells,
        name=str(section.members),
        start=section.start,
        end=section.end,
        calendar=section.calendar,
        policies=section.policies,
    )
    if not cleaned.failures:
        require_priced(cleaned.prices, [one for one in seen if one.asset in cleaned.prices], str(section.members))
    return CheckReport(section.source, cleaned.prices, cleaned.report, cleaned.failures)
