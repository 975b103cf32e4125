"""The portfolio layer alone: how forecasts of return become weights, and how an outcome is traced back to them."""

import torch

from portfolio_dfl.allocation import MultiPeriodMeanVariance

TICKERS = ("shares", "bonds", "gold")

# Forecasts for the next three days, [B, H, N]; the covariance of daily returns, [B, N, N]; what is held, [B, N].
forecast = torch.tensor([[[8e-4, 1e-4, 3e-4]] * 3], dtype=torch.float64, requires_grad=True)
volatility = torch.tensor([0.010, 0.003, 0.008], dtype=torch.float64)
correlation = torch.tensor([[1.0, -0.2, 0.1], [-0.2, 1.0, 0.2], [0.1, 0.2, 1.0]], dtype=torch.float64)
covariance = (volatility[:, None] * correlation * volatility)[None]
held = torch.tensor([[0.2, 0.6, 0.2]], dtype=torch.float64)

layer = MultiPeriodMeanVariance(n_assets=3, horizon=3, risk_aversion=10.0, turnover_limit=0.5)
plan = layer(forecast, covariance, held)  # [B, H, N]

print("day        " + "  ".join(f"{ticker:>6}" for ticker in TICKERS))
print("held       " + "  ".join(f"{float(weight):6.3f}" for weight in held[0]))
for day, weights in enumerate(plan[0].detach(), start=1):
    print(f"planned {day}  " + "  ".join(f"{float(weight):6.3f}" for weight in weights))

# The market then did something else; which forecasts should have been different?
realised = torch.tensor([[[-5e-3, 1e-3, 4e-3]] * 3], dtype=torch.float64)
loss = -(plan * realised).sum()
loss.backward()
assert forecast.grad is not None
print(f"\nloss {float(loss.detach()):.5f}; its gradient says to raise these forecasts where it is negative:")
for ticker, slope in zip(TICKERS, forecast.grad[0].sum(0), strict=True):
    print(f"  {ticker:<7}{float(slope):+.2e}")
