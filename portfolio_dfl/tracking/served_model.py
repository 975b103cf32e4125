"""The file that MLflow keeps with a model and runs to load it: the model's code, without pickles."""

from mlflow.models import set_model

from portfolio_dfl.tracking.model import PortfolioModel

set_model(PortfolioModel())
