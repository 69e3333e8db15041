#!/bin/bash
# gaia as one harness among others: gaia.sh run|resume|outcome. README.md beside this file says what it is given.
set -e
cd "$BENCH_WORK"
case $1 in
run)
    cat >bench.toml <<END
[dataset]
path = "$BENCH_DATA"
${BENCH_LIMIT:+limit = $BENCH_LIMIT}
[model]
name = "mock"
base_url = "$BENCH_URL"
context_window = 128_000
[run]
concurrency = $BENCH_CONC
[mcp_servers.bash]
command = "gaia-mcp-bash"
args = ["--image", "$BENCH_IMAGE", "--network", "${BENCH_REACH:-on}", "--timeout-sec", "180"]
env_vars = ["DOCKER_HOST"]
enabled_tools = ["bash", "view_image"]
tool_timeout_sec = 660
[mcp_servers.submit]
command = "gaia-mcp-submit"
END
    exec "$GAIA" run bench.toml --json >outcome.json
    ;;
resume) exec "$GAIA" resume last $BENCH_RESUME --json >outcome.json ;;
outcome)
    python3 -c 'import json
totals = json.load(open("outcome.json"))["figures"]["totals"]
score = totals["correct"] / totals["requested"]
print(json.dumps({"score": score, "samples": totals["requested"], "errors": totals["error"]}))'
    ;;
esac
