"""Numbers as people write them."""

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.data.numerals import decimal_mark, read_numbers


@pytest.mark.parametrize(
    ("cells", "mark"),
    [
        (["82,69", "82,77"], ","),
        (["82.69", "82.77"], "."),
        (["1.234,50"], ","),
        (["1,234.50"], "."),
        (["118.135", "11,54M", "1,70%"], ","),
        (["178.36", "7.54M", "0.37%"], "."),
        (["1.234.567"], ","),
        (["$1,234.50"], "."),
        (["118.135"], "."),
        (["", "AAPL", "2020-01-02"], "."),
    ],
)
def test_decimal_mark_is_found_from_all_cells_together(cells, mark):
    assert decimal_mark(cells) == mark


@pytest.mark.parametrize(
    ("text", "decimal", "value"),
    [
        ("$123.45", ".", 123.45),
        ("1,234.50", ".", 1234.5),
        ("1.234,50 €", ",", 1234.5),
        ("R$ 118.135", ",", 118135.0),
        ("USD 12.5", ".", 12.5),
        ("1 234,5", ",", 1234.5),
        ("1'234.5", ".", 1234.5),
        ("1e3", ".", 1000.0),
        ("-3.5", ".", -3.5),
    ],
)
def test_a_price_is_read_with_currency_and_thousand_marks(text, decimal, value):
    numbers, unreadable = read_numbers(pd.Series([text]), decimal)
    assert numbers.tolist() == [value]
    assert not unreadable.any()


@pytest.mark.parametrize("text", ["", "-", "n/a", "null", "NaN", "None", " "])
def test_a_blank_is_a_missing_price_and_no_defect(text):
    numbers, unreadable = read_numbers(pd.Series([text, "1.5"]))
    assert np.isnan(numbers[0])
    assert not unreadable.any()


@pytest.mark.parametrize("text", ["0.37%", "delisted", "12M", "1.2.3"])
def test_what_is_no_price_is_unreadable(text):
    numbers, unreadable = read_numbers(pd.Series(["1.5", text]))
    assert np.isnan(numbers[1])
    assert unreadable.tolist() == [False, True]


def test_numbers_among_texts_keep_their_value_whatever_the_decimal_mark():
    numbers, unreadable = read_numbers(pd.Series([1.5, "2,5", None], dtype=object), ",")
    assert numbers[:2].tolist() == [1.5, 2.5]
    assert np.isnan(numbers[2])
    assert not unreadable.any()
