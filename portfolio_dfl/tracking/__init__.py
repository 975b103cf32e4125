"""What remains of a study: MLflow runs, the HTML report, a loadable model."""
