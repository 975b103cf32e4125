"""What every retraining ended with, a figure a number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from portfolio_dfl.report.canvas import ALARM, Lines, add_lines, blank
from portfolio_dfl.report.looks import looks_of
from portfolio_dfl.report.reported import ReportedStudy

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["window_charts", "window_metric"]

# Strategies minimise different losses, so that these have an axis for each.
_OWN_SCALE = ("train_loss", "validation_loss", "parameter_gradient_norm")
_SHRINKAGES = ("shrinkage", "learned_shrinkage")

# Window metrics that are drawn, with what their captions say; others stay in the artifacts.
_WINDOW_METRICS = {
    "train_loss": "Loss on the training samples in the last epoch",
    "validation_loss": "Loss on the validation samples that early stopping watches",
    "regret": "Regret against perfect foresight, mean over the decisions until the next retraining",
    "mse": "Mean squared error of the forecasts, over the decisions until the next retraining",
    "forecast_inflation": "Size of the forecasts over that of realised returns; a calibrated one is far below 1",
    "zero_gradient_share": "Share of training samples whose loss does not react to any forecast",
    "bounds_active_share": "Share of planned weights at zero, in training",
    "turnover_active_share": "Share of plans that use the whole turnover limit, in training",
    "shrinkage": "Weight of the structured target in the covariances of the decisions until the next retraining",
    "learned_shrinkage": "Weight of the diagonal that training gave the covariance",
    "learned_risk_aversion": "Factor of the risk aversion that training chose",
    "learned_transaction_cost": "Factor of the transaction cost that training had the plan count",
    "learned_forecasts": "Factor of the predictor's forecasts that training chose",
    "parameter_gradient_norm": "Norm of the gradient with respect to the predictor's parameters, last epoch",
}


def window_charts(study: ReportedStudy) -> Iterator[tuple[str, str, go.Figure]]:
    """Heading, caption and figure of every window metric that there are numbers of."""
    windows = study.windows
    if windows.empty:
        return
    failed = list(windows.loc[windows["failed"] != "", "date"])
    for column, caption in _WINDOW_METRICS.items():
        lines = _window_lines(study, column) if column in windows else {}
        if column in _SHRINKAGES and not any(series.any() for _, series in lines.values()):
            continue  # an estimator that does not shrink
        title = column.replace("_", " ").capitalize().replace("Mse", "MSE")
        groups: dict[str, Lines] = {f"{title}, {label}": {label: line} for label, line in lines.items()}
        if column not in _OWN_SCALE:
            groups = {title: lines} if lines else {}
        for heading, group in groups.items():
            share = column.endswith("_share") or column in _SHRINKAGES
            yield heading, caption, window_metric(group, failed, share=share)


def window_metric(lines: Lines, failed: Sequence[pd.Timestamp], *, share: bool = False) -> go.Figure:
    """One number for each retraining; dates at which training failed carry a cross; shares run from 0 to 1."""
    import plotly.graph_objects as go

    figure = blank(230)
    add_lines(figure, lines, "%{y:.3g}")
    for trace in figure.data:
        trace.update(mode="lines+markers", marker={"size": 4, "color": trace.line.color})
    values = np.concatenate([series.dropna().to_numpy(np.float64) for _, series in lines.values()])
    figure.update_yaxes(exponentformat="power", nticks=5)
    if share:
        figure.update_yaxes(range=[-0.03, 1.03], tickformat=".0%", dtick=0.25)
    elif len(values) and np.ptp(values) <= 1e-6 * np.abs(values).max():  # a constant needs room, not decimals
        level = float(values[0])
        room = 0.5 * abs(level) or 1.0
        figure.update_yaxes(range=[level - room, level + room])
    if len(failed):
        level = float(values.max()) if len(values) else 0.0
        figure.add_trace(
            go.Scatter(
                x=list(failed),
                y=[level] * len(failed),
                mode="markers",
                name="failed",
                marker={"symbol": "x", "size": 9, "color": ALARM},
                hovertemplate="failed",
            )
        )
    return figure


def _window_lines(study: ReportedStudy, column: str) -> Lines:
    lines, looks = {}, looks_of(study.lanes)
    for lane in study.lanes:
        mine = study.windows[(study.windows["strategy"] == lane.strategy) & (study.windows["seed"] == lane.seed)]
        if mine[column].notna().any():
            lines[lane.label] = (looks[lane.label], mine.set_index("date")[column])
    return lines
