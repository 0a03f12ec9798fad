#!/usr/bin/env bash
# What the scripts of the mesh scenario share. Each node is a container of its own with its own network, so that three of
# them are on one machine; in all else it is the base node of examples/node.
set -euo pipefail

REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
FLEET=${FLEET_ROLE_MESH:-${RUNNER_TEMP:-/tmp}/fleet-role-mesh}
DOMAIN=mesh.example
NODES=(node1 node2 node3)
ALWAYS='--file docker-compose.yml'

say() { printf '\n=== %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

# within SECONDS WHAT COMMAND...: tries the command until it succeeds.
within() {
  local seconds=$1 what=$2 end
  shift 2
  end=$((SECONDS + seconds))
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || fail "$what, not within $seconds seconds"
    sleep 3
  done
  echo "ok: $what"
}

# is WHAT EXPECTED ACTUAL
is() {
  [ "$2" = "$3" ] || fail "$1: expected '$2', found '$3'"
  echo "ok: $1: $3"
}

# compose NODE ARGUMENT...: in the node's project, with the override once it is placed.
compose() {
  local node=$1 files=$ALWAYS
  shift
  [ ! -f "$FLEET/$node/docker-compose.fleet-role.yml" ] || files="$files --file docker-compose.fleet-role.yml"
  # shellcheck disable=SC2086 # the files are words
  (cd "$FLEET/$node" && docker compose --project-name "$node" $files "$@")
}

# on NODE COMMAND...: in the node's server container.
on() {
  local node=$1
  shift
  docker exec "$node-k3s" "$@"
}
kubectl_on() {
  local node=$1
  shift
  on "$node" kubectl --request-timeout=20s "$@"
}

# in_data NODE SCRIPT: in the node's volumes, whether its container runs or not.
in_data() { docker run --rm --volumes-from "$1-k3s" --entrypoint /bin/sh mesh-node -c "$2"; }

# The members that a node lists: started ones by their node names (a member's name is the node name, a hyphen and eight
# digits), sorted. Learners are in it.
members() { kubectl_on "$1" get --raw /db/info | jq -r '[.members[] | select(.name) | .name | sub("-[0-9a-f]{8}$"; "")] | sort | join(" ")'; }
voters() { kubectl_on "$1" get --raw /db/info | jq -r '[.members[] | select(.name and (.isLearner | not)) | .name | sub("-[0-9a-f]{8}$"; "")] | sort | join(" ")'; }
cluster_id() { kubectl_on "$1" get namespace kube-system --output 'jsonpath={.metadata.uid}'; }
password_of() { in_data "$1" 'cat /etc/rancher/node/password'; }

has_voters() { [ "$(voters "$1" 2>/dev/null)" = "$2" ]; }
has_members() { [ "$(members "$1" 2>/dev/null)" = "$2" ]; }
state() { docker inspect --format '{{.State.Status}}' "$1-k3s"; }
restarts() { docker inspect --format '{{.RestartCount}}' "$1-k3s"; }
exited_with() { [ "$(docker inspect --format '{{.State.ExitCode}}' "$1-k3s")" = "$2" ]; }
restarted_more_than() { [ "$(restarts "$1")" -gt "$2" ]; }

# What a node has said since a time; times are those of `date +%s`.
logs_since() { docker logs --since "$2" "$1-k3s" 2>&1; }
says() { logs_since "$1" "$2" | grep -qF -- "$3"; }

url_of() { printf 'https://%s.%s:6443' "$1" "$DOMAIN"; }

# write_file NODE NAME TEXT: a file of the role directory, replaced in one step as fleet-role does.
write_file() {
  local directory=$FLEET/$1/fleet-role.d
  printf '%s\n' "$3" | sudo tee "$directory/.$2.new" >/dev/null
  sudo mv "$directory/.$2.new" "$directory/$2"
}

# inventory CONTROLLER: the fleet as the bundle sees it; every host is this machine, with a project of its own.
inventory() {
  local node
  printf 'github_runner_cluster:\n  vars:\n'
  printf '    github_runner_cluster_controller: %s\n' "$1"
  printf '    github_runner_cluster_tailnet_domain: %s\n' "$DOMAIN"
  printf '    ansible_connection: local\n  hosts:\n'
  for node in "${NODES[@]}"; do
    printf '    %s:\n' "$node"
    printf '      github_runner_cluster_dir: %s\n' "$FLEET/$node"
    printf '      github_runner_cluster_compose_project: %s\n' "$node"
    printf '      github_runner_cluster_container_name: %s-k3s\n' "$node"
    printf '      github_runner_cluster_agent_container_name: %s-k3s-agent\n' "$node"
  done
}

# apply CONTROLLER: commits the inventory, and applies it through the bundle as an operator does. Prints the result.
apply() {
  local repository=$FLEET/repository output=$FLEET/output before after
  before=$(git -C "$repository" rev-parse --verify --quiet HEAD || true)
  inventory "$1" >"$repository/inventory.yml"
  git -C "$repository" add inventory.yml
  git -C "$repository" -c user.name=Mesh -c user.email=mesh@example.net commit --quiet --allow-empty -m "controller $1"
  after=$(git -C "$repository" rev-parse HEAD)
  : >"$output"
  env -u GITHUB_EVENT_NAME -u GITHUB_ACTIONS "INPUT_MODE=apply" "INPUT_REPOSITORY=$repository" "INPUT_REF=$after" \
    "INPUT_BASE-REF=$before" "INPUT_CHECK-RUN=false" "INPUT_TOKEN=" "INPUT_ROLLOUT=changed" \
    "GITHUB_OUTPUT=$output" "GITHUB_STEP_SUMMARY=$FLEET/summary.md" "RUNNER_TEMP=$FLEET/temp" \
    node "$REPO/dist/index.js"
}
