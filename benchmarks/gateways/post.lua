-- wrk's script: POST the body in BODY_FILE; at the end print the figures as one line of JSON, times in microseconds.
local file = assert(io.open(os.getenv("BODY_FILE"), "rb"))
wrk.method = "POST"
wrk.body = file:read("*a")
wrk.headers["Content-Type"] = "application/json"
file:close()

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    'FIGURES {"requests": %d, "duration_us": %d, "p50_us": %d, "p99_us": %d, "bad_status": %d, "broken": %d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
