"""MLflow: adapter versions, their manifests, and the release log."""
