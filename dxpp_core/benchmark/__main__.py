"""``python -m dxpp_core.benchmark [overhead | batches] [--sizes ...]``; both tables without a name."""

from __future__ import annotations

import argparse

from .batches import BATCHES, print_batches
from .overhead import SIZES, print_overhead


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m dxpp_core.benchmark", description=__doc__)
    parser.add_argument("table", nargs="?", choices=("overhead", "batches"))
    parser.add_argument("--sizes", type=int, nargs="+", help="variables (overhead) or batch sizes (batches)")
    asked = parser.parse_args()
    if asked.table != "batches":
        print_overhead(asked.sizes or SIZES)
    if asked.table != "overhead":
        print_batches(asked.sizes or BATCHES)


if __name__ == "__main__":
    main()
