"""Weights held in training, and the one decision function."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import torch

from portfolio_dfl.allocation import drift_weights
from portfolio_dfl.training.datamodule import Batches
from portfolio_dfl.training.decision import DecisionBook, DecisionModel, Outcome
from portfolio_dfl.training.policies import PredictOptimisePolicy
from portfolio_dfl.training.window import WindowTask

PolicyFactory = Callable[..., PredictOptimisePolicy]


def a_task(make_policy: PolicyFactory, returns: pd.DataFrame) -> tuple[WindowTask, DecisionModel]:
    task = make_policy().task(returns)
    model = task.build_model()
    generator = torch.Generator().manual_seed(0)
    for parameter in model.predictor.parameters():
        torch.nn.init.normal_(parameter, std=0.1, generator=generator)
    return task, model


def sweep(model: DecisionModel, batches: Batches) -> torch.Tensor:
    plans = []
    for batch in batches:
        outcome = Outcome(model, batch.samples, batch.book.held[batch.positions])
        batch.book.record(batch.positions, outcome.weights[:, 0])
        plans.append(outcome.weights.detach())
    return torch.cat(plans)


def sequential(model: DecisionModel, task: WindowTask) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights held and decided when dates are solved one after the other, in the plainest code."""
    samples = task.samples
    held = torch.full((1, 3), 1 / 3, dtype=torch.float64)
    before, after = [], []
    with torch.no_grad():
        for i in range(len(samples)):
            weights = model(samples.features[i : i + 1], samples.covariance[i : i + 1], held)[:, 0]
            before.append(held)
            after.append(weights)
            held = drift_weights(weights, samples.future_returns[i : i + 1, 0])
    return torch.cat(before), torch.cat(after)


def test_book_starts_with_equal_weights_and_drifts_decisions_to_the_next_date(
    make_policy: PolicyFactory, returns: pd.DataFrame
) -> None:
    samples = make_policy().task(returns).samples
    book = DecisionBook(samples)
    assert torch.equal(book.held, torch.full((12, 3), 1 / 3, dtype=torch.float64))
    weights = torch.tensor([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]], dtype=torch.float64)
    book.record(slice(10, 12), weights)
    t = returns.index.get_loc(samples.dates[10])
    grown = weights[0].numpy() * (1 + returns.iloc[t + 1].to_numpy())
    np.testing.assert_allclose(book.held[11], grown / grown.sum(), rtol=1e-14)
    assert torch.equal(book.held[:11], torch.full((11, 3), 1 / 3, dtype=torch.float64))


def test_one_sample_a_batch_is_the_sequential_chain(make_policy: PolicyFactory, returns: pd.DataFrame) -> None:
    task, model = a_task(make_policy, returns)
    batches = Batches(task.samples, 1)
    plans = sweep(model, batches)
    before, after = sequential(model, task)
    torch.testing.assert_close(batches.book.held, before, rtol=0, atol=1e-9)
    torch.testing.assert_close(plans[:, 0], after, rtol=0, atol=1e-9)


def test_full_batches_reach_the_sequential_chain_after_as_many_sweeps_as_samples(
    make_policy: PolicyFactory, returns: pd.DataFrame
) -> None:
    task, model = a_task(make_policy, returns)
    batches = Batches(task.samples, None)
    before, _ = sequential(model, task)
    assert not torch.allclose(batches.book.held, before, rtol=0, atol=1e-3)
    for _ in range(len(task.samples)):
        sweep(model, batches)
    torch.testing.assert_close(batches.book.held, before, rtol=0, atol=1e-9)


def test_batches_cover_the_window_in_order_and_again(make_policy: PolicyFactory, returns: pd.DataFrame) -> None:
    task, _ = a_task(make_policy, returns)
    batches = Batches(task.samples, 5)
    for _ in range(2):
        assert [len(batch.samples) for batch in batches] == [5, 5, 2]
        dates = [date for batch in batches for date in batch.samples.dates]
        assert dates == list(task.samples.dates)
    assert len(batches) == 3


def test_no_gradient_flows_into_the_weights_held(make_policy: PolicyFactory, returns: pd.DataFrame) -> None:
    task, model = a_task(make_policy, returns)
    batches = Batches(task.samples, 1)
    sweep(model, batches)
    assert not batches.book.held.requires_grad


def test_training_backtest_and_live_use_decide_alike(make_policy: PolicyFactory, returns: pd.DataFrame) -> None:
    policy = make_policy()
    policy.fit(returns.iloc[:60])
    samples = policy.task(returns).samples
    model = policy.task(returns).build_model()
    state = policy.windows[-1].state
    assert state is not None
    model.load_state_dict(state, strict=False)
    held = np.array([0.5, 0.3, 0.2])
    for i in (0, 5, 11):
        part = samples.slice(i, i + 1)
        outcome = Outcome(model, part, torch.from_numpy(held)[None])
        decided = policy.decide(returns.loc[: part.dates[0]], held)
        np.testing.assert_array_equal(outcome.weights[0, 0].detach(), decided)
