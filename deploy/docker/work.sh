#!/bin/sh
# A Prefect worker that runs Turnout's deployments, in a home of its own.
#
#   work.sh               create the work pool and the deployments where they are missing, then work
#   work.sh deployments   print the deployments
#
# TURNOUT_PRESET   the preset that schedules and events start; tiny-cpu
# TURNOUT_SET      settings over it, with spaces between them
set -euf

preset=${TURNOUT_PRESET:-tiny-cpu}
source=${TURNOUT_DEPLOYMENTS:-/opt/turnout/prefect.yaml}

# prefect.yaml names a preset as a parameter, and as what is taken for an event that names none.
deployments() {
    settings=
    for setting in ${TURNOUT_SET:-}; do settings="$settings${settings:+, }'$setting'"; done
    sed -e "s|^\( *\)preset: tiny-cpu\$|\1preset: $preset\n\1overrides: [$settings]|" \
        -e "s|default('tiny-cpu')|default('$preset')|" \
        -e "s|default(\[\])|default([$settings])|" "$source"
}

if [ "${1:-}" = deployments ]; then
    deployments
    exit
fi

cd "$(mktemp -d)"
deployments > prefect.yaml
prefect work-pool inspect turnout > /dev/null 2>&1 || prefect work-pool create turnout --type process
prefect --no-prompt deploy --all --prefect-file prefect.yaml
# It answers /health on port 8080.
exec prefect worker start --pool turnout --with-healthcheck
