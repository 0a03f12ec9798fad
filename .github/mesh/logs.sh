#!/usr/bin/env bash
# The last words of every node, for a run that failed.
# shellcheck source=.github/mesh/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

for name in headscale "${NODES[@]/%/-k3s}"; do
  say "$name"
  docker inspect --format '{{.State.Status}} exit {{.State.ExitCode}} restarts {{.RestartCount}}' "$name" || continue
  docker logs --tail 150 "$name" 2>&1 || true
done
