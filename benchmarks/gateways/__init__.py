"""The parts of the gateway benchmarks: a stub upstream, the gateways that are compared, and the loads."""
