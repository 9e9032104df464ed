#!/bin/sh
# Turnout in the foreground. Engines, gateway and reconciler are brought up; whatever of them dies is started again;
# SIGTERM or SIGINT lets the requests under way finish, stops everything and ends with 0.
#
#   serve.sh           serve until told to stop
#   serve.sh health    0 where the gateway can answer requests
#
# TURNOUT_PRESET   a preset's name or file; without it, the settings of this home's last start
# TURNOUT_SET      settings with spaces between them: "serving.replicas=2 serving.gateway.drain_s=60"
# TURNOUT_ROUTES   routes to serve instead of a registry's
# TURNOUT_HEALTH   what `health` asks; the gateway's /ready on port 8080
# TURNOUT_WATCH_S  seconds between two looks at the reconciler; 5
set -uf

if [ "${1:-}" = health ]; then
    exec curl --fail --silent --show-error --max-time 5 --output /dev/null \
        "${TURNOUT_HEALTH:-http://127.0.0.1:8080/ready}"
fi

home=${TURNOUT_HOME:-.turnout}
stopping=
child=

# A shell that waits for a program in the foreground takes no signal until that ends.
run() {
    "$@" &
    child=$!
    wait "$child"
}

bring_up() {
    set --
    [ -n "${TURNOUT_PRESET:-}" ] && set -- "$@" -c "$TURNOUT_PRESET"
    [ -n "${TURNOUT_ROUTES:-}" ] && set -- "$@" --routes "$TURNOUT_ROUTES"
    for setting in ${TURNOUT_SET:-}; do set -- "$@" --set "$setting"; done
    run turnout up "$@"
}

# The reconciler looks after engines and gateway, and this looks after the reconciler. A dead process that nobody has
# waited for yet takes signals, too.
reconciles() {
    pid=$(cat "$home/reconciler.pid" 2>/dev/null) || return 1
    kill -0 "$pid" 2>/dev/null && ! grep -q '^State:.*zombie' "/proc/$pid/status" 2>/dev/null
}

trap 'stopping=yes' TERM INT

bring_up
code=$?
while [ -z "$stopping" ] && [ "$code" -eq 0 ]; do
    run sleep "${TURNOUT_WATCH_S:-5}"
    if [ -z "$stopping" ] && ! reconciles; then
        echo "the reconciler is gone: turnout up starts it again" >&2
        bring_up
        code=$?
    fi
done

trap '' TERM INT
# An `up` that is cut short has written down what it started.
kill "$child" 2>/dev/null
wait "$child" 2>/dev/null
turnout down
stopped=$?
[ -n "$stopping" ] && exit "$stopped"
exit "$code"
