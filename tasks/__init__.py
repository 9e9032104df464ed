"""The stages of the pipeline: plain functions, and the thin Prefect tasks around them."""
