"""The multi-period mean-variance portfolio as a differentiable layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd import forward_ad

from dxpp_core.tracing import outside_graphs
from portfolio_dfl.allocation import black_box
from portfolio_dfl.allocation.arguments import Batch, absorb_tracking, as_batch, constants, numbers_of, spread
from portfolio_dfl.allocation.autograd import Call, apply_native, refuse_tangents
from portfolio_dfl.allocation.coupling import CouplingRows
from portfolio_dfl.allocation.factored.planner import FactorPlanner
from portfolio_dfl.allocation.limits import Limit, Limits
from portfolio_dfl.allocation.native import NativeResult, NativeSolver
from portfolio_dfl.allocation.refusals import check_limits, name_element, raise_for_facts
from portfolio_dfl.allocation.smoothing import SmoothCall, Smoothing, perturbations, smoothed_weights
from portfolio_dfl.allocation.solution import AllocationSolution, from_native
from portfolio_dfl.allocation.standard_form import StandardForm
from portfolio_dfl.allocation.tracking_error import plan_within
from portfolio_dfl.errors import AllocationError
from portfolio_dfl.risk.factor import WORTH_PARTS, FactorCovariance
from portfolio_dfl.scalars import require_number

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MultiPeriodMeanVariance"]

_Array = NDArray[np.float64]
_FLOAT = torch.float64


def _charges(rate: float | Tensor) -> bool:
    """Whether a rate is one that must be charged; what may be learned always is."""
    return bool(rate.requires_grad or (rate > 0.0).any()) if isinstance(rate, Tensor) else rate > 0.0


def _in_full(rate: float | Tensor) -> str:
    """All numbers with all their digits, of which a tensor's own text may leave out most."""
    return str(rate.detach().tolist() if isinstance(rate, Tensor) else rate)


class MultiPeriodMeanVariance(nn.Module):
    """Plan weights over H stages: the paper's multi-period mean-variance program as a layer.

    Minimises Σ_s ( −r_sᵀw_s + λ/2 w_sᵀΣ_s w_s + c_sᵀ|w_s − w_{s−1}| ), and where they are given the market impact
    bᵀ(w_s − w_{s−1})² and the cost dᵀmax(−w_s, 0) of what is borrowed, subject to 1ᵀw_s = 1, w_s ≥ 0 and
    ‖w_s − w_{s−1}‖₁ ≤ τ_s, where w_0 are the weights held before the first trade. Solved exactly (to rounding, with a
    certificate) and differentiated exactly; the standard form is in `standard_form`.

    Parameters
    ----------
    n_assets, horizon : int
        N and H.
    risk_aversion : float or Tensor
        λ > 0; a tensor (scalar) may be learned, an ``nn.Parameter`` is registered.
    turnover_limit : float, sequence or array of H floats, Tensor, or None
        τ > 0, the L1 distance between consecutive weights, for all stages or per stage (infinite: none there). None: no
        limit.
    transaction_cost : float, sequence or array of N floats, or Tensor
        c ≥ 0, cost per unit traded, in the units of returns; per asset or for all.
    market_impact : float, sequence or array of N floats, or Tensor
        b ≥ 0, coefficient of the squared trade; per asset or for all. The native solver has none.
    borrow_cost : float, sequence or array of N floats, or Tensor
        d ≥ 0, cost of a unit held short for one stage; per asset or for all. The native solver has none; it matters
        only where limits allow short positions.
    limits : sequence of Limit
        Optional pieces of the module `limits`: bounds, groups, benchmark-relative limits, cash, tracking cost. Default:
        w ≥ 0 alone.
    solver : str
        ``"auto"``: the compiled solver of this package, or ``"piqp"`` where it has no part of the objective.
        ``"native"``: the compiled solver. ``"factored"``: that of factor risk, which ``"auto"`` takes for a
        `FactorCovariance` of many assets. Otherwise the name of a black box known to ``dxpp_core`` (``"piqp"``,
        ``"gurobi"``, any of ``qpsolvers``).
    threads : int, optional
        Threads over the batch; default: the CPUs of this process.
    assets : sequence of N str, optional
        Tickers that errors name in place of numbers.
    initial_weights : sequence of N float, optional
        What is held before the first decision where a training or backtest starts. Default: equal weights.

    Notes
    -----
    Gradients reach expected returns, covariances (symmetric), previous weights, λ, τ and c. Where the map is not
    smooth they are finite and one of its one-sided values: at a weakly active row, that of the active set the solver
    found; a plan at a vertex has gradient zero in returns and covariances; an asset held at a bound at the first
    stage does not respond to its own previous weight; a slack turnover budget has derivative zero.
    ``AllocationSolution.margin`` tells how far an instance is from such a point.

    Examples
    --------
    >>> import torch
    >>> from portfolio_dfl import MultiPeriodMeanVariance
    >>> layer = MultiPeriodMeanVariance(n_assets=3, horizon=2, risk_aversion=10.0, turnover_limit=0.2)
    >>> forecast = torch.tensor([[[8e-4, 1e-4, 3e-4]] * 2], dtype=torch.float64, requires_grad=True)
    >>> covariance = 1e-4 * torch.eye(3, dtype=torch.float64)[None]
    >>> held = torch.tensor([[0.2, 0.6, 0.2]], dtype=torch.float64)
    >>> plan = layer(forecast, covariance, held)
    >>> plan.detach()
    tensor([[[0.3000, 0.5000, 0.2000],
             [0.4000, 0.4000, 0.2000]]], dtype=torch.float64)
    """

    def __init__(
        self,
        n_assets: int,
        horizon: int,
        *,
        risk_aversion: float | Tensor = 10.0,
        turnover_limit: float | Sequence[float] | _Array | Tensor | None = None,
        transaction_cost: float | Sequence[float] | _Array | Tensor = 0.0,
        market_impact: float | Sequence[float] | _Array | Tensor = 0.0,
        borrow_cost: float | Sequence[float] | _Array | Tensor = 0.0,
        limits: Sequence[Limit] = (),
        solver: str = "auto",
        threads: int | None = None,
        assets: Sequence[str] | None = None,
        initial_weights: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        if n_assets < 1 or horizon < 1:
            raise AllocationError(f"n_assets is {n_assets} and horizon is {horizon}; both must be at least 1")
        self.n_assets = n_assets
        self.horizon = horizon
        self.solver = solver
        self.risk_aversion: float | Tensor
        self.turnover_limit: float | Tensor | None
        self.transaction_cost: float | Tensor
        for name, value in (("risk_aversion", risk_aversion), ("turnover_limit", turnover_limit)):
            if value is not None or name == "risk_aversion":
                numbers = value.detach().cpu() if isinstance(value, Tensor) else value
                require_number(AllocationError, name, numbers, above=0.0, infinite=name == "turnover_limit")
        self.market_impact: float | Tensor
        self.borrow_cost: float | Tensor
        charged = {"transaction_cost": transaction_cost, "market_impact": market_impact, "borrow_cost": borrow_cost}
        for name, cost in charged.items():
            numbers = cost.detach().cpu() if isinstance(cost, Tensor) else cost
            require_number(AllocationError, name, numbers, least=0.0)
            if np.ndim(numbers) and np.shape(numbers) != (n_assets,) and name != "transaction_cost":
                raise AllocationError(f"{name} has {np.size(numbers)} entries for {n_assets} assets: give one for each")
        self._keep("risk_aversion", risk_aversion)
        self._keep("turnover_limit", turnover_limit)
        for name, cost in charged.items():
            self._keep(name, cost)
        self.limits = tuple(limits)
        self.initial_weights = None if initial_weights is None else tuple(map(float, initial_weights))
        if self.initial_weights is not None and len(self.initial_weights) != n_assets:
            raise AllocationError(f"initial_weights has {len(self.initial_weights)} entries for {n_assets} assets")
        self._limits = Limits.collect(n_assets, self.limits, assets)
        check_limits(self._limits)
        self._impact = _charges(self.market_impact)
        self._borrows = _charges(self.borrow_cost) and bool(self._limits.shorted.size)
        foreign = ["market impact"] * self._impact + ["cost of borrowing"] * self._borrows
        if solver == "native" and foreign:
            raise AllocationError(
                f"the native solver has no {' and no '.join(foreign)}: take solver='auto', or a black box"
            )
        covered = self._limits.factored and not foreign
        if solver == "factored" and not covered:
            raise AllocationError(
                "factor risk is planned in its parts within bounds, groups, cash and tracking costs alone: take "
                "solver='auto' for other limits, market impact or costs of borrowing"
            )
        self._factors_pay = solver == "auto" and covered and n_assets >= WORTH_PARTS
        self._black_box = "piqp" if solver == "auto" and foreign else solver
        box = self._limits.lower, self._limits.upper, self._limits.counted
        rows = CouplingRows.collect(self._limits)
        self._coupled = rows is not None
        self._native = NativeSolver(*box, threads, rows)
        self._form: StandardForm | None = None

    def _keep(self, name: str, value: float | Sequence[float] | _Array | Tensor | None) -> None:
        """Numbers as attributes; tensors as parameters or buffers, so that they move and are saved with the module."""
        if isinstance(value, nn.Parameter):
            self.register_parameter(name, value)
        elif isinstance(value, Tensor):
            self.register_buffer(name, value)
        elif value is None:
            setattr(self, name, None)
        elif np.ndim(value):
            self.register_buffer(name, torch.tensor(np.asarray(value), dtype=_FLOAT))
        else:
            setattr(self, name, float(value))  # type: ignore[arg-type]

    def extra_repr(self) -> str:
        """All settings, so that the text identifies the layer."""
        start = "" if self.initial_weights is None else f", initial_weights={self.initial_weights}"
        foreign = [
            f", {name}={_in_full(value)}"
            for name, value in (("market_impact", self.market_impact), ("borrow_cost", self.borrow_cost))
            if _charges(value)
        ]
        return (
            f"n_assets={self.n_assets}, horizon={self.horizon}, risk_aversion={self.risk_aversion}, "
            f"turnover_limit={self.turnover_limit}, transaction_cost={_in_full(self.transaction_cost)}, "
            f"limits={self.limits}, solver={self.solver!r}{''.join(foreign)}{start}"
        )

    @overload
    def forward(
        self,
        expected_returns: Tensor,
        covariance: Tensor | FactorCovariance,
        previous_weights: Tensor,
        *,
        risk_aversion: float | Tensor | None = None,
        turnover_limit: float | Tensor | None = None,
        transaction_cost: float | Tensor | None = None,
        warm_start: AllocationSolution | None = None,
        dates: Sequence[object] | pd.DatetimeIndex | None = None,
        smoothing: Smoothing | None = None,
        return_solution: Literal[False] = False,
    ) -> Tensor: ...
    @overload
    def forward(
        self,
        expected_returns: Tensor,
        covariance: Tensor | FactorCovariance,
        previous_weights: Tensor,
        *,
        risk_aversion: float | Tensor | None = None,
        turnover_limit: float | Tensor | None = None,
        transaction_cost: float | Tensor | None = None,
        warm_start: AllocationSolution | None = None,
        dates: Sequence[object] | pd.DatetimeIndex | None = None,
        return_solution: Literal[True],
    ) -> AllocationSolution: ...
    @outside_graphs("MultiPeriodMeanVariance", AllocationError)
    def forward(
        self,
        expected_returns: Tensor,
        covariance: Tensor | FactorCovariance,
        previous_weights: Tensor,
        *,
        risk_aversion: float | Tensor | None = None,
        turnover_limit: float | Tensor | None = None,
        transaction_cost: float | Tensor | None = None,
        warm_start: AllocationSolution | None = None,
        dates: Sequence[object] | pd.DatetimeIndex | None = None,
        smoothing: Smoothing | None = None,
        return_solution: bool = False,
    ) -> Tensor | AllocationSolution:
        """Solve a batch of problems.

        Parameters
        ----------
        expected_returns : Tensor [B, H, N]
            Simple returns expected at each stage.
        covariance : Tensor [N, N], [B, N, N] or [B, H, N, N], or FactorCovariance
            Positive semidefinite; only the symmetric part enters.  Factor risk of many assets is solved in its parts.
        previous_weights : Tensor [N] or [B, N]
            Weights held before the first trade (after drift).
        risk_aversion, turnover_limit, transaction_cost : optional
            In place of the module's own: λ scalar or [B]; τ scalar, [H] or [B, H]; c scalar, [N], [H, N] or [B, H, N].
        warm_start : AllocationSolution, optional
            An earlier solution of the same shape; its active set is tried first. Black boxes take no notice of it.
        dates : sequence of B labels, optional
            Names the batch elements in errors.
        smoothing : Smoothing, optional
            Take gradients of a smoothed plan (see `Smoothing`) instead of the exact one.
        return_solution : bool
            Return multipliers, certificate and more instead of weights alone.

        Returns
        -------
        Tensor [B, H, N] or AllocationSolution
            In the dtype and on the device of ``expected_returns``; computed in float64 on the CPU.

        Raises
        ------
        AllocationError
            Shapes do not fit; numbers are missing; an instance cannot be satisfied, or is not convex; or a graph was
            asked for (``torch.export``, ``torch.jit.trace``), while ``torch.compile`` breaks its graph here.
        """
        parameters = (
            self.risk_aversion if risk_aversion is None else risk_aversion,
            self.turnover_limit if turnover_limit is None else turnover_limit,
            self.transaction_cost if transaction_cost is None else transaction_cost,
        )
        if isinstance(covariance, FactorCovariance):
            if self.solver == "factored" or self._factors_pay:
                planner = FactorPlanner(self._limits, self._native.count_threads, self.horizon, self.n_assets)
                given = expected_returns, covariance, previous_weights, parameters
                if smoothing is not None:
                    return planner.smoothed(*given, smoothing, dates)
                factored = planner.plan(*given, dates)
                return factored if return_solution else factored.weights
            covariance = covariance.dense()
        elif self.solver == "factored":
            raise AllocationError("solver='factored' plans with a FactorCovariance; take solver='auto' for a dense one")
        batch = self._batch(
            as_batch(expected_returns, covariance, previous_weights, self.horizon, self.n_assets), *parameters
        )
        if self._limits.tracking_error is not None:
            batch = self._within_tracking_error(batch, dates)
        if smoothing is not None:
            if return_solution or warm_start is not None:
                raise AllocationError("a smoothed plan has no solution object and no warm start: ask for weights alone")
            return self._smoothed(batch, smoothing, dates).to(expected_returns)
        found = self._plan(batch, warm_start, dates, return_solution=return_solution)
        if expected_returns.dtype is _FLOAT and expected_returns.is_cpu:
            return found
        if isinstance(found, Tensor):
            return found.to(expected_returns)
        return replace(found, weights=found.weights.to(expected_returns))

    def _plan(
        self,
        batch: Batch,
        warm_start: AllocationSolution | None,
        dates: Sequence[object] | pd.DatetimeIndex | None,
        *,
        return_solution: bool,
    ) -> Tensor | AllocationSolution:
        """The plans of a batch, but for a limit on the tracking error."""
        if self._black_box not in ("auto", "native"):
            found = self._ask(self._black_box, batch.returns, batch.covariance, batch.previous, batch.parameters, dates)
            return found if return_solution else found.weights
        weights, call, result = self._solve(batch, warm_start, return_solution=return_solution)
        if result.doubtful:
            raise_for_facts(
                result.found.facts, call.turnover, call.previous, dates, self._limits, final=self.solver == "native"
            )
            if self.solver == "auto":
                weights = self._second_opinion(weights, result, batch, dates)
        return from_native(weights, call.previous, result) if return_solution else weights

    def _within_tracking_error(self, batch: Batch, dates: Sequence[object] | pd.DatetimeIndex | None) -> Batch:
        """The batch with the penalties that keep its plans within the limit on the tracking error."""
        assert self._limits.tracking_error is not None

        def plan(returns: Tensor, covariance: Tensor, rows: Tensor) -> Tensor:
            names = [name_element(int(row), dates) for row in rows]
            part = batch.of(rows)._replace(returns=returns, covariance=covariance)
            found = self._plan(part, None, names, return_solution=False)
            assert isinstance(found, Tensor)
            return found

        covariance = 0.5 * (batch.covariance + batch.covariance.transpose(-1, -2))
        if covariance.ndim == 3:
            covariance = covariance.unsqueeze(1)
        returns, penalised = plan_within(
            plan, batch.returns, covariance, batch.parameters[0], self._limits.tracking_error, dates
        )
        return batch._replace(returns=returns, covariance=penalised)

    def _batch(
        self,
        inputs: tuple[Tensor, Tensor, Tensor],
        aversion: float | Tensor,
        limit: float | Tensor | None,
        rate: float | Tensor,
    ) -> Batch:
        """The batch with λ, τ and c in full, and with what tracks a benchmark absorbed."""
        if type(aversion) is float and type(limit) is float and type(rate) is float:
            numbers = constants(aversion, limit, rate, self.horizon, self.n_assets)
            batch = Batch(*inputs, numbers, (None, None, None))
        else:
            full = (
                spread("risk_aversion", aversion, ()),
                spread("turnover_limit", torch.inf if limit is None else limit, (self.horizon,)),
                spread("transaction_cost", rate, (self.horizon, self.n_assets)),
            )
            (first, one), (second, two), (third, three) = full
            batch = Batch(*inputs, (first, second, third), (one, two, three))
        return absorb_tracking(batch, self._limits.tracking) if self._limits.tracking else batch

    def _smoothed(
        self, batch: Batch, smoothing: Smoothing, dates: Sequence[object] | pd.DatetimeIndex | None
    ) -> Tensor:
        """Weights whose gradients are those of a smoothed plan."""
        exact: AllocationSolution | None = None
        if smoothing.value == "exact" or smoothing.way == "penalty":
            with torch.no_grad():
                found = self._plan(batch, None, dates, return_solution=True)
            assert isinstance(found, AllocationSolution)
            exact = found
        if smoothing.way == "perturbation":
            weights = self._perturbed(batch, smoothing, dates)
        else:
            weights = self._centred(batch, smoothing, exact, dates)
        if smoothing.value == "smoothed":
            return weights
        assert exact is not None
        # Adds nothing to the numbers, only the derivative.
        return exact.weights + (weights - weights.detach())

    def _perturbed(
        self, batch: Batch, smoothing: Smoothing, dates: Sequence[object] | pd.DatetimeIndex | None
    ) -> Tensor:
        """The mean of exact plans at perturbed forecasts."""
        B, S = batch.returns.shape[0], smoothing.samples
        many = batch.of(torch.arange(B).repeat(S))
        many = many._replace(returns=many.returns + perturbations(smoothing, tuple(batch.returns.shape)).flatten(0, 1))
        names = [name_element(b, dates) for b in range(B)] * S
        weights = self._plan(many, None, names, return_solution=False)
        assert isinstance(weights, Tensor)
        mean: Tensor = weights.unflatten(0, (S, B)).mean(0)
        return mean

    def _centred(
        self,
        batch: Batch,
        smoothing: Smoothing,
        exact: AllocationSolution | None,
        dates: Sequence[object] | pd.DatetimeIndex | None,
    ) -> Tensor:
        """The plan of the barrier or the penalty."""
        if self._black_box not in ("auto", "native"):
            raise AllocationError(
                f"smoothing by {smoothing.way} is the native solver's, and this plan is solved by "
                f"{self._black_box}: take way='perturbation'"
            )
        if smoothing.way == "penalty" and self._coupled:
            raise AllocationError("smoothing by penalty has no limits that couple weights: take way='barrier'")
        covariance = numbers_of(batch.covariance, copied=True)
        aversion, turnover, cost = batch.numbers
        call = SmoothCall(
            self._native,
            numbers_of(batch.returns),
            covariance if covariance.ndim == 4 else covariance[:, None],
            numbers_of(batch.previous, copied=True),
            aversion.copy(),
            turnover,
            cost,
            smoothing,
            exact,
        )
        weights = smoothed_weights(call, (batch.returns, batch.covariance, batch.previous, *batch.tensors))
        if call.facts is not None:
            raise_for_facts(call.facts, turnover, call.previous, dates, self._limits, final=True)
        return weights

    def _solve(
        self, batch: Batch, warm_start: AllocationSolution | None, *, return_solution: bool
    ) -> tuple[Tensor, Call, NativeResult]:
        """Weights from the native solver, of which a gradient may be asked for where an input asks for one."""
        returns, covariance, previous, (aversion, turnover, cost), parameters = batch
        if getattr(forward_ad, "_current_level", 0) >= 0:
            refuse_tangents(returns, covariance, previous, *parameters)
        tensors = (returns, covariance, previous, *parameters)
        learns = torch.is_grad_enabled() and (
            returns.requires_grad or any(tensor is not None and tensor.requires_grad for tensor in tensors[1:])
        )
        # The backward pass reads covariance, previous weights and λ: as they are now, whatever becomes of them.
        numbers = numbers_of(covariance, copied=learns)
        call = Call(
            self._native,
            numbers_of(returns),
            numbers if numbers.ndim == 4 else numbers[:, None],
            numbers_of(previous, copied=learns),
            aversion.copy() if learns else aversion,
            turnover,
            cost,
            None if warm_start is None else warm_start.native,
        )
        if learns:
            weights = apply_native(call, *tensors)
            result = call.result
            assert result is not None
        else:
            result = call.solve(keep=False)
            # A warm start reads the solver's own again.
            weights = torch.from_numpy(result.weights.copy() if return_solution else result.weights)
        return weights, call, result

    def _second_opinion(
        self,
        weights: Tensor,
        result: NativeResult,
        batch: Batch,
        dates: Sequence[object] | pd.DatetimeIndex | None,
    ) -> Tensor:
        """Let a black box solve what the native solver could not certify: rows that contradict each other by a hair."""
        written = result.found
        doubtful = np.flatnonzero(written.facts[:, 0])
        where = torch.from_numpy(doubtful)
        aversion, turnover, cost = (full[where] if full.shape[0] > 1 else full for full in batch.parameters)
        names = [name_element(int(element), dates) for element in doubtful]
        found = self._ask(
            "piqp",
            batch.returns[where],
            batch.covariance[where],
            batch.previous[where],
            (aversion, turnover, cost),
            names,
        )
        result.weights[doubtful] = found.weights.detach().numpy()
        written.nu[doubtful] = found.budget_dual
        written.theta[doubtful] = found.turnover_dual
        written.pull[doubtful] = found.lower_dual - found.upper_dual
        written.facts[doubtful, 0] = np.where(found.certified, 0.0, 1.0)
        written.facts[doubtful, 4:7] = found.certificate
        return weights.index_copy(0, where, found.weights)

    def _ask(
        self,
        solver: str,
        returns: Tensor,
        covariance: Tensor,
        previous: Tensor,
        parameters: tuple[Tensor, Tensor, Tensor],
        dates: Sequence[object] | pd.DatetimeIndex | None,
    ) -> AllocationSolution:
        """The plans as general programs, by a black box."""
        if self._form is None:
            self._form = StandardForm(self.horizon, self._limits, impact=self._impact, borrowing=self._borrows)
        impact = self._an_asset(self.market_impact) if self._impact else None
        borrow = self._an_asset(self.borrow_cost) if self._borrows else None
        return black_box.solve(
            self._form,
            self._limits,
            solver,
            returns,
            covariance,
            previous,
            *parameters,
            dates,
            impact=impact,
            borrow=borrow,
        )

    def _an_asset(self, rate: float | Tensor) -> Tensor:
        """A copy of a rate, one number an asset, [N]."""
        return torch.as_tensor(rate).to(device="cpu", dtype=_FLOAT).expand(self.n_assets).clone()
