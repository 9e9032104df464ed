"""What can be told of a dataset before anything is trained on it: figures, findings and a report."""
