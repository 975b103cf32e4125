"""The sections on holdings and on what they contributed."""

from __future__ import annotations

from html import escape

from portfolio_dfl.report.gallery import Gallery, Side
from portfolio_dfl.report.holdings import averaging_days
from portfolio_dfl.report.looks import looks_of
from portfolio_dfl.report.markup import asset_key, figure, key, note, plot, section, side_by_side
from portfolio_dfl.report.reported import ReportedStudy, main_of, period_of, real_lanes

__all__ = ["contributed", "held"]


def held(study: ReportedStudy, figures: Gallery) -> str:
    """What they held."""
    looks = looks_of(study.lanes)
    labels = [lane.label for lane in study.lanes]
    first = study.ledgers[labels[0]].weights
    days = averaging_days(len(first))
    pace = f"{period_of(study)} by {period_of(study)}" if days == 1 else f"averages of {days} {period_of(study)}s"
    few = len(figures.weights_key) >= first.shape[1]
    kept = (
        "" if few else " Of the assets, the ten that were largest on average over time and strategies are shown apart."
    )
    charts = [f"<figure><h3>{escape(label)}</h3>{plot(figures.weights(label))}</figure>" for label in labels]
    parts = [
        note(f"Share of wealth in each asset, {pace}. Between trades the shares drift with prices.{kept}"),
        asset_key(figures.weights_key),
        side_by_side(charts),
    ]
    if study.groups:
        grouped = [f"<figure><h3>{escape(label)}</h3>{plot(figures.groups(label))}</figure>" for label in labels]
        parts += [note("The same by group."), asset_key(figures.groups_key), side_by_side(grouped)]
    through_time = [
        figure(
            figures.holdings(),
            "<b>Effective number of holdings</b>: how many equal positions would be as concentrated, cash left out.",
        )
    ]
    if figures.varies_exposure:
        words: dict[Side, str] = {
            "gross": "long plus short",
            "net": "long less short",
            "long": "what is owned",
            "short": "what is owed",
        }
        through_time += [
            figure(figures.exposure(side), f"<b>{side.capitalize()} exposure</b>: {meaning}, cash left out.")
            for side, meaning in words.items()
        ]
    else:
        parts.append(note("Every strategy was fully invested and never short: all exposure is 100 %, long."))
    parts += [key({lane.label: looks[lane.label] for lane in real_lanes(study)}), side_by_side(through_time)]
    return section("What they held", *parts)


def contributed(study: ReportedStudy, figures: Gallery) -> str:
    """Where return and risk came from; nothing where the prices are gone."""
    if study.returns is None:
        return ""
    main = main_of(study).label
    assets = study.ledgers[main].weights.shape[1]
    kept = "" if assets <= 12 else " Of the assets, the ten with the largest part of the risk are shown apart."
    charts = []
    for grouped in (False, True) if study.groups else (False,):
        of = "group" if grouped else "asset"
        charts += [
            figure(
                figures.return_contributions(by_group=grouped),
                f"<b>Contribution to return by {of}</b>, before costs, in units of the starting wealth; they add up to "
                "the whole return.",
            ),
            figure(
                figures.risk_contributions(by_group=grouped),
                f"<b>Contribution to risk by {of}</b>, before costs; they add up to the volatility a year.",
            ),
        ]
    return section("Where return and risk came from", note(f"Of {main}.{kept}"), side_by_side(charts))
