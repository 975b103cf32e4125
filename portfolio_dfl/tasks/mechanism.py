"""When does training on the decision pay? Markets that are made up and known, one thing varied at a time.

Each of N − 1 assets has a signal x, standard normal and independent from day to day, that says what it will return;
the first has none. Returns of a day are

    r_0 = ε_0,    r_i = s σ g(x_i) + ε_i,    g(x) = (exp(κ x) − exp(κ²/2)) / sd,    ε ~ N(0, σ² ((1 − ρ) I + ρ 1 1ᵀ)),

with g standardised, so that s is the signal-to-noise ratio, and κ → 0 a linear relation. The forecast is linear,
r̂_0 = 0 and r̂_i = a + b x_i, so that it misses the share 1 − κ² / (exp(κ²) − 1) of the signal's variance: that is the
misspecification. Two-stage takes a and b of least squares on all samples. Decision-focused starts from those of the
first three quarters, follows the net utility of its own decisions, and takes the epoch that was best on the last
quarter. What both are worth is measured at the true expected returns, on days that neither has seen, decisions carried
out one after another: the share of the gain over holding what is best without signals that the known truth would earn.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from portfolio_dfl.errors import ConfigError
from portfolio_dfl.tasks.records import TaskResult, describe_machine, require_place, save_task
from portfolio_dfl.tasks.settings import require_least, require_positive, require_some

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from torch import Tensor

    from portfolio_dfl.allocation import MultiPeriodMeanVariance
    from portfolio_dfl.allocation.smoothing import Smoothing

__all__ = ["KnownMarket", "mechanism", "mechanism_figure"]

_NAME = "mechanism"
_VOLATILITY, _CORRELATION = 0.01, 0.3
# Markets whose programs are solved in one call; it bounds memory.
_TOGETHER = 20
_KNOBS = {
    "curvature": "misspecification (share of the signal)",
    "signal": "signal-to-noise ratio",
    "cost": "cost of a unit traded",
    "samples": "samples",
    "assets": "assets",
    "strength": "strength of smoothing",
}


@dataclass(frozen=True)
class KnownMarket:
    """One cell: a kind of market and how decisions on it are trained.

    Attributes
    ----------
    curvature : float
        κ of the relation between signal and return; 0 is linear.
    signal : float
        s, standard deviation of expected returns in units of that of the noise.
    cost : float
        c, of a unit traded.
    samples : int
        Days learned from.
    assets : int
        N, the one without a signal included.
    strength : float
        μ of the barrier that derivatives are smoothed by; 0 for exact ones.
    """

    curvature: float = 1.0
    signal: float = 0.3
    cost: float = 5e-4
    samples: int = 400
    assets: int = 4
    strength: float = 1e-5

    @property
    def misspecification(self) -> float:
        """Share of the signal's variance that no linear forecast explains."""
        square = self.curvature**2
        return 1.0 - square / math.expm1(square) if square > 1e-12 else 0.0

    def expected(self, signals: Tensor) -> Tensor:
        """True expected returns [..., N] given signals [..., N − 1]."""
        import torch

        shape = signals
        if self.curvature > 1e-6:
            square = self.curvature**2
            shape = (torch.exp(self.curvature * signals - 0.5 * square) - 1.0) / math.sqrt(math.expm1(square))
        return torch.nn.functional.pad(self.signal * _VOLATILITY * shape, (1, 0))


def mechanism(
    *,
    markets: int = 200,
    tested: int = 200,
    epochs: int = 20,
    learning_rate: float = 0.03,
    risk_aversion: float = 30.0,
    curvature: Sequence[float] = (0.0, 0.5, 1.0, 1.5),
    signal: Sequence[float] = (0.1, 0.3, 1.0),
    cost: Sequence[float] = (0.0, 5e-4, 1e-3),
    samples: Sequence[int] = (100, 400, 1600),
    assets: Sequence[int] = (2, 4, 8),
    strength: Sequence[float] = (0.0, 1e-5, 1e-4),
    seed: int = 0,
    reduced: bool = False,
    folder: str | os.PathLike[str] = "runs",
) -> TaskResult:
    """Compare both trainings on known markets (synthetic), each knob varied around the same middle.

    Parameters
    ----------
    markets : int
        Independent markets of each cell.
    tested : int
        Days after training that judge.
    epochs, learning_rate : int, float
        Of decision-focused training: Adam's steps, in units of the noise's volatility.
    risk_aversion : float
        λ of plans and utility.
    curvature, signal, cost, samples, assets, strength : sequence
        What is tried of each attribute of :class:`KnownMarket` while the others stay as they are there.
    seed : int
        Of the markets; cells share their draws as far as their sizes agree.
    reduced : bool
        Twenty markets; the straightest relation and the clearest signal alone.
    folder : path
        Folder of runs.

    Returns
    -------
    TaskResult
        Rows: knob, value, two_stage and decision_focused (share of what the truth would earn, mean over markets), gain
        (their difference) with ``low`` and ``high``, its 95 % t interval over markets, ``wins`` (share of markets in
        which decision-focused is ahead) and misspecification.

    Raises
    ------
    ConfigError, TrackingError
    """
    require_some(curvature=curvature, signal=signal, cost=cost, samples=samples, assets=assets, strength=strength)
    require_least(0, curvature=curvature, cost=cost, strength=strength, seed=seed)
    require_least(2, markets=markets, tested=tested, assets=assets)
    require_least(8, samples=samples)
    require_least(1, epochs=epochs)
    require_positive(learning_rate=learning_rate, risk_aversion=risk_aversion, signal=signal)
    if max(curvature) > 3.0:
        raise ConfigError(f"curvature has {max(curvature)} in it; above 3 a signal is hardly ever seen in a sample")
    require_place(_NAME, folder)
    tried: dict[str, Sequence[Any]] = {
        "curvature": curvature,
        "signal": signal,
        "cost": cost,
        "samples": samples,
        "assets": assets,
        "strength": strength,
    }
    if reduced:
        markets, tested, epochs = min(markets, 20), min(tested, 100), min(epochs, 15)
        tried = {"curvature": [min(curvature)], "signal": [max(signal)]}
    cells = [(name, replace(KnownMarket(), **{name: value})) for name, values in tried.items() for value in values]
    found: dict[KnownMarket, dict[str, float]] = {}
    for _, cell in cells:
        if cell not in found:
            shares = _judge(cell, markets, tested, epochs, learning_rate, risk_aversion, seed)
            found[cell] = _summary(*shares)
    rows = pd.DataFrame(
        [
            {
                "knob": name,
                "value": asdict(cell)[name],
                "misspecification": cell.misspecification,
                **found[cell],
            }
            for name, cell in cells
        ]
    )
    middle = KnownMarket()
    shown = rows.drop(columns="misspecification").copy()
    at = rows["knob"] == "curvature"
    shown["value"] = rows["value"].where(~at, rows["misspecification"]).map("{:.4g}".format)
    shown["knob"] = rows["knob"].map(_KNOBS)
    table = shown.to_string(index=False, float_format="{:.3f}".format)
    return save_task(
        TaskResult(
            name=_NAME,
            title=f"When training on the decision pays: {markets} known markets (synthetic) a line, share of what the "
            "truth would earn",
            rows=rows,
            table=table,
            figures={_NAME: mechanism_figure(rows)},
            parameters={
                "markets": markets,
                "tested": tested,
                "epochs": epochs,
                "learning_rate": learning_rate,
                "risk_aversion": risk_aversion,
                "seed": seed,
                **{f"middle.{name}": value for name, value in asdict(middle).items()},
            },
            metrics={f"{row['knob']}/{row['value']:g}/gain": float(row["gain"]) for row in rows.to_dict("records")},
            notes=[
                "What is not named in a line is as in the middle: "
                + ", ".join(f"{name} {value:g}" for name, value in asdict(middle).items())
                + f" (misspecification {middle.misspecification:.2f}).",
                _verdict(rows),
            ],
            machine=describe_machine(),
        ),
        folder,
    )


def _judge(
    cell: KnownMarket, markets: int, tested: int, epochs: int, learning_rate: float, risk_aversion: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Gains [markets] of two-stage and of decision-focused, as shares of the truth's mean gain."""
    import torch

    from portfolio_dfl.allocation import MultiPeriodMeanVariance

    N = cell.assets
    layer = MultiPeriodMeanVariance(
        n_assets=N, horizon=1, risk_aversion=risk_aversion, turnover_limit=None, transaction_cost=cell.cost
    )
    covariance = _VOLATILITY**2 * (
        (1.0 - _CORRELATION) * torch.eye(N, dtype=torch.float64) + torch.full((N, N), _CORRELATION, dtype=torch.float64)
    )
    found = []
    for first in range(0, markets, _TOGETHER):
        count = min(_TOGETHER, markets - first)
        draw = torch.Generator().manual_seed(seed * 1_000_003 + first)
        days = cell.samples + tested
        signals = torch.randn(count, days, N - 1, dtype=torch.float64, generator=draw)
        noise = torch.randn(count, days, N, dtype=torch.float64, generator=draw) @ torch.linalg.cholesky(covariance).T
        expected = cell.expected(signals)
        book = _Book(layer, covariance, cell, risk_aversion)
        past, later = slice(0, cell.samples), slice(cell.samples, days)
        returns = (expected + noise)[:, past]
        squares = _least_squares(signals[:, past], returns)
        trained = book.train(signals[:, past], returns, epochs, learning_rate)
        truth = expected[:, later]
        worth = [
            book.walk(_forecast(theta, signals[:, later]), truth)
            for theta in (squares, trained, torch.zeros(count, 2, dtype=torch.float64))
        ]
        ceiling = book.walk(truth, truth)
        found.append(torch.stack([worth[0] - worth[2], worth[1] - worth[2], ceiling - worth[2]]))
    # In units of what is attainable in the mean market: in one alone it may be next to nothing.
    two_stage, focused, attainable = torch.cat(found, dim=1).numpy()
    return two_stage / attainable.mean(), focused / attainable.mean()


def _forecast(theta: Tensor, signals: Tensor) -> Tensor:
    """Forecasts [M, T, N] of coefficients (a, b) [M, 2], in units of the noise, from signals [M, T, N − 1]."""
    import torch

    seen = theta[:, None, None, 0] + theta[:, None, None, 1] * signals
    return torch.nn.functional.pad(_VOLATILITY * seen, (1, 0))


def _least_squares(signals: Tensor, returns: Tensor) -> Tensor:
    """Pooled coefficients (a, b) [M, 2] of least squares, in units of the noise."""
    import torch

    flat = signals.flatten(1)
    design = torch.stack([torch.ones_like(flat), flat], dim=-1)
    solution: Tensor = torch.linalg.lstsq(design, returns[..., 1:].flatten(1).unsqueeze(-1) / _VOLATILITY).solution
    return solution.squeeze(-1)


@dataclass(frozen=True)
class _Book:
    """Decisions of many markets side by side."""

    layer: MultiPeriodMeanVariance
    covariance: Tensor
    cell: KnownMarket
    risk_aversion: float

    def decide(self, forecast: Tensor, held: Tensor, smoothing: Smoothing | None = None) -> Tensor:
        """Weights [..., N] for forecasts and weights held [..., N]."""
        flat = forecast.reshape(-1, 1, forecast.shape[-1])
        risk = self.covariance.expand(len(flat), -1, -1)
        planned: Tensor = self.layer(flat, risk, held.reshape(len(flat), -1), smoothing=smoothing)
        return planned.reshape(forecast.shape)

    def utility(self, weights: Tensor, returns: Tensor, held: Tensor) -> Tensor:
        """wᵀr − λ/2 wᵀΣw − c‖w − h‖₁ of each decision."""
        risk = ((weights @ self.covariance) * weights).sum(-1)
        traded = (weights - held).abs().sum(-1)
        return (weights * returns).sum(-1) - 0.5 * self.risk_aversion * risk - self.cell.cost * traded

    def walk(self, forecast: Tensor, truth: Tensor) -> Tensor:
        """Mean utility [M] at the true expected returns of decisions taken one after another, from equal weights."""
        import torch

        held = torch.full_like(truth[:, 0], 1.0 / truth.shape[-1])
        earned = []
        with torch.no_grad():
            for day in range(truth.shape[1]):
                weights = self.decide(forecast[:, day], held)
                earned.append(self.utility(weights, truth[:, day], held))
                held = weights  # of a day's drift what is left is far below a trade
        return torch.stack(earned, dim=1).mean(dim=1)

    def train(self, signals: Tensor, returns: Tensor, epochs: int, learning_rate: float) -> Tensor:
        """Coefficients [M, 2] of the epoch that was best on the last quarter of the samples."""
        import torch

        from portfolio_dfl.allocation.smoothing import Smoothing

        learned = signals.shape[1] - signals.shape[1] // 4
        smoothing = Smoothing("barrier", self.cell.strength) if self.cell.strength else None
        theta = _least_squares(signals[:, :learned], returns[:, :learned]).requires_grad_()
        optimiser = torch.optim.Adam([theta], lr=learning_rate)
        held = torch.full_like(returns, 1.0 / returns.shape[-1])
        best, best_worth = theta.detach().clone(), torch.full((len(theta),), -math.inf, dtype=torch.float64)
        for _ in range(epochs + 1):
            weights = self.decide(_forecast(theta, signals), held, smoothing)
            worth = self.utility(weights, returns, held)
            judged = worth[:, learned:].mean(dim=1).detach()
            better = judged > best_worth
            best = torch.where(better[:, None], theta.detach(), best)
            best_worth = torch.where(better, judged, best_worth)
            optimiser.zero_grad()
            # Of each market alone: their sum has the gradients of all.
            (-worth[:, :learned].mean(dim=1).sum() / _VOLATILITY).backward()
            optimiser.step()
            held = torch.cat([held[:, :1], weights.detach()[:, :-1]], dim=1)
        return best


def _summary(two_stage: np.ndarray, focused: np.ndarray) -> dict[str, float]:
    from scipy import stats

    gains = focused - two_stage
    low, high = stats.t.interval(0.95, len(gains) - 1, gains.mean(), stats.sem(gains))
    return {
        "two_stage": float(two_stage.mean()),
        "decision_focused": float(focused.mean()),
        "gain": float(gains.mean()),
        "low": float(low),
        "high": float(high),
        "wins": float((gains > 0).mean()),
    }


def _verdict(rows: pd.DataFrame) -> str:
    """Where which training is ahead beyond chance, in words that follow from the rows."""

    def named(some: pd.DataFrame) -> str:
        return "; ".join(f"{row['knob']} {row['value']:g}" for row in some.to_dict("records")) or "nowhere"

    ahead, behind = rows[rows["low"] > 0.0], rows[rows["high"] < 0.0]
    return f"Decision-focused is ahead beyond chance at: {named(ahead)}. Two-stage: {named(behind)}."


def mechanism_figure(rows: pd.DataFrame) -> go.Figure:
    """What decision-focused training gains over two-stage along every knob, from the rows of the task."""
    from portfolio_dfl.tasks.charts import gain_panels

    panels = {
        _KNOBS[str(name)]: part.assign(
            x=part["misspecification"].map("{:.2f}".format) if name == "curvature" else part["value"].map("{:g}".format)
        )
        for name, part in rows.astype({"value": float}).groupby("knob", sort=False)
    }
    return gain_panels(panels, y_title="decision-focused − two-stage")
