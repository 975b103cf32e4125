"""MLflow: runs, the dashboard, a loadable model."""
