#!/usr/bin/env bash
# Headscale, three servers on it, the controller turned on through the bundle, and the guards brought into force.
# shellcheck source=.github/mesh/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

HEADSCALE_IMAGE=headscale/headscale:0.26.1

say 'the image of a node, as examples/node builds it'
mkdir -p "$FLEET/image" "$FLEET/repository" "$FLEET/temp"
# The entrypoint lies there as a link in the repository.
cp -rL "$REPO/examples/node/." "$FLEET/image"
docker build --tag mesh-node "$FLEET/image"

say 'Headscale'
docker network create fleet-role-mesh >/dev/null
docker run --detach --name headscale --network fleet-role-mesh --tmpfs /var/run/headscale \
  --volume "$REPO/.github/mesh/headscale.yaml:/etc/headscale/config.yaml:ro" --volume headscale:/var/lib/headscale \
  "$HEADSCALE_IMAGE" serve >/dev/null
headscale_answers() { docker exec headscale headscale users list >/dev/null 2>&1; }
within 60 'Headscale answers' headscale_answers
docker exec headscale headscale users create fleet >/dev/null
user=$(docker exec headscale headscale users list --output json | jq -r '.[0].id')
key=$(docker exec headscale headscale preauthkeys create --user "$user" --reusable --expiration 24h --output json | jq -r .key)
[ -n "$key" ] || fail 'Headscale gave no key'
echo "::add-mask::$key"

say 'three servers, one after the other'
sans=''
for node in "${NODES[@]}"; do sans="$sans${sans:+ }$node.$DOMAIN"; done
token=$(head -c 32 /dev/urandom | base64 | tr -d '/+=')
echo "::add-mask::$token"
joined=''
for node in "${NODES[@]}"; do
  mkdir -p "$FLEET/$node"
  cp "$REPO/.github/mesh/docker-compose.yml" "$FLEET/$node/docker-compose.yml"
  join=''
  [ "$node" = node1 ] || join=$(url_of node1)
  (
    umask 077
    printf '%s\n' "NODE=$node" COMPOSE_PROFILES=server "K3S_TOKEN=$token" "K3S_VPN_AUTH_JOIN_KEY=$key" \
      K3S_VPN_AUTH_CONTROL_SERVER_URL=http://headscale:8080 "K3S_JOIN_SERVER_URL=$join" "K3S_URL=$(url_of node1)" \
      "K3S_TLS_SAN_LIST=$sans" >"$FLEET/$node/.env"
  )
  compose "$node" up --detach k3s
  joined="$joined${joined:+ }$node"
  within 300 "$joined vote" has_voters node1 "$joined"
done

say 'the controller on'
git -C "$FLEET/repository" init --quiet --initial-branch main
# A first commit as the base: the fleet as it runs, the controller off.
inventory false >"$FLEET/repository/inventory.yml"
git -C "$FLEET/repository" add inventory.yml
git -C "$FLEET/repository" -c user.name=Mesh -c user.email=mesh@example.net commit --quiet -m 'as it runs'
apply true
for node in "${NODES[@]}"; do
  is "$node: its role" server "$(cat "$FLEET/$node/fleet-role.d/role")"
  [ -f "$FLEET/$node/docker-compose.fleet-role.yml" ] || fail "$node has no override"
done

say 'the guards into force, one node at a time'
for node in "${NODES[@]}"; do
  other=node1
  [ "$node" != node1 ] || other=node2
  compose "$node" up --detach --no-deps k3s
  within 300 "node1 node2 node3 vote again" has_voters "$other" 'node1 node2 node3'
  within 300 "$node answers again" has_voters "$node" 'node1 node2 node3'
done
