"""Return predictors: modules that map a window of past returns to expected returns over the horizon."""
