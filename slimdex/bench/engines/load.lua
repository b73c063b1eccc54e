local bodies, asked = {}, 0
for line in io.lines("BODIES") do bodies[#bodies + 1] = line end
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
request = function()
  asked = asked + 1
  return wrk.format(nil, nil, nil, bodies[(asked - 1) % #bodies + 1])
end
done = function(summary, latency)
  local failed = summary.errors
  io.write(string.format(
    '\n{"requests": %d, "us": %d, "failed": %d, "p50": %d, "p99": %d}\n',
    summary.requests, summary.duration,
    failed.connect + failed.read + failed.write + failed.status + failed.timeout,
    latency:percentile(50), latency:percentile(99)))
end
