"""Frames go to Parquet and back, also in several threads, which leave the process's warnings as they were."""

from __future__ import annotations

import io
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd

from portfolio_dfl.data.parquet import parquet_bytes, read_parquet


def test_frames_come_back_and_the_warning_filters_stay() -> None:
    frame = pd.DataFrame(np.arange(12.0).reshape(4, 3), pd.date_range("2020-01-01", periods=4), list("abc"))

    def there_and_back(_: int) -> bool:
        return read_parquet(io.BytesIO(parquet_bytes(frame))).equals(frame)

    assert there_and_back(0)
    before = list(warnings.filters)
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(there_and_back, range(400)))
    assert list(warnings.filters) == before
