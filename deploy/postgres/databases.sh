#!/bin/sh
# Run once, by the image's entrypoint, when the volume is new: a database for Prefect beside MLflow's.
set -eu
psql --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" --set ON_ERROR_STOP=1 --command 'CREATE DATABASE prefect'
