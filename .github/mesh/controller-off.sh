#!/usr/bin/env bash
# The controller is turned off through the bundle: the override is gone from the hosts, and no container is recreated.
# shellcheck source=.github/mesh/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ids() { docker inspect --format '{{.Id}}' "${NODES[@]/%/-k3s}"; }
before=$(ids)
apply false
is 'the containers' "$before" "$(ids)"
for node in "${NODES[@]}"; do
  [ ! -e "$FLEET/$node/docker-compose.fleet-role.yml" ] || fail "$node still has the override"
  [ ! -e "$FLEET/$node/fleet-role.d/role" ] || fail "$node still has a role file"
  if grep -q fleet-role "$FLEET/$node/.env"; then fail "$node still lists the override"; fi
  echo "ok: $node"
done
is 'the voters' 'node1 node2 node3' "$(voters node2)"
