"""What one run came to: the values that `--json` prints, one HTML page with plots, and where they are filed."""
