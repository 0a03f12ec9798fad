#!/usr/bin/env bash
# What must hold for a server that loses its membership, step by step and in this order (issue 7, item 8).
# shellcheck source=.github/mesh/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

DB=/var/lib/rancher/k3s/server/db
identity=$(cluster_id node2)
password=$(password_of node1)

say '1. the role directory is mounted read-only'
is 'node1: the mount' false "$(docker inspect --format '{{range .Mounts}}{{if eq .Destination "/etc/github-runner"}}{{.RW}}{{end}}{{end}}' node1-k3s)"
if on node1 sh -c ': >/etc/github-runner/role' 2>/dev/null; then fail 'the role directory can be written from inside'; fi
is 'node1: the role that it reads' server "$(on node1 cat /etc/github-runner/role)"

say '2. a datastore that is moved before the member is removed: k3s itself refuses'
write_file node1 join-url "$(url_of node2)"
compose node1 stop k3s
in_data node1 "mv $DB $DB.kept"
since=$(date +%s)
compose node1 start k3s
within 240 'k3s refuses the name' says node1 "$since" 'duplicate node name found'
is 'the members' 'node1 node2 node3' "$(members node2)"
compose node1 stop k3s
in_data node1 "rm -rf $DB && mv $DB.kept $DB"
compose node1 start k3s
within 300 'node1 votes again' has_voters node1 'node1 node2 node3'

say '3. its member is removed through node 2'
since=$(date +%s)
before=$(restarts node1)
kubectl_on node2 annotate node node1 etcd.k3s.cattle.io/remove=true etcd.k3s.cattle.io/removed-node-name- --overwrite
within 120 'two members are left' has_members node2 'node2 node3'

say '4. k3s writes the tombstone, and the restarted container idles'
has_tombstone() { in_data node1 "test -e $DB/etcd/tombstone"; }
within 120 'the tombstone is there' has_tombstone
# k3s ends by itself in most cases (fact 1.14); one that lingers is restarted as any operator would.
restarted_more_than node1 "$before" || docker restart --time 30 node1-k3s >/dev/null
within 180 'the guard says why it idles' says node1 "$since" "tombstone says this server's etcd member was removed"
sleep 20
is 'node1: its state' running "$(state node1)"
is 'the members' 'node2 node3' "$(members node2)"

say '5. docker stop ends the idle container with exit status 0'
docker stop --time 30 node1-k3s >/dev/null
is 'node1: its exit status' 0 "$(docker inspect --format '{{.State.ExitCode}}' node1-k3s)"

say '6. a former member without a join URL starts nothing, however often it is restarted'
in_data node1 "mv $DB $DB.demoted"
write_file node1 join-url ''
since=$(date +%s)
docker start node1-k3s >/dev/null
# A start by hand counts its restarts from nothing.
within 120 'its policy restarts it' restarted_more_than node1 1
within 60 'the guard says why' says node1 "$since" 'has no server to join'
within 60 'it exits with 1' exited_with node1 1
if says node1 "$since" 'Starting k3s'; then fail 'k3s was started'; fi
is 'the members' 'node2 node3' "$(members node2)"
is 'the identity' "$identity" "$(cluster_id node2)"

say '7. with a join URL it joins as a learner and is promoted'
docker stop --time 30 node1-k3s >/dev/null
kubectl_on node2 annotate node node1 etcd.k3s.cattle.io/remove- etcd.k3s.cattle.io/removed-node-name- --overwrite
write_file node1 join-url "$(url_of node2)"
docker start node1-k3s >/dev/null
saw_learner() { kubectl_on node2 get --raw /db/info | jq -e '[.members[] | select(.isLearner)] | length == 1' >/dev/null; }
within 240 'a learner, or a voter already' eval 'saw_learner || has_voters node2 "node1 node2 node3"'
within 300 'node1 votes' has_voters node2 'node1 node2 node3'
within 120 'node1 serves' has_voters node1 'node1 node2 node3'
is 'the identity' "$identity" "$(cluster_id node1)"
is 'node1: the node password' "$password" "$(password_of node1)"

say '8. with the role of an agent the container runs a shell and its sleep, and is not restarted'
# The member goes first, as a demotion does it: fence, removal, proof.
write_file node1 role agent
kubectl_on node2 annotate node node1 etcd.k3s.cattle.io/remove=true etcd.k3s.cattle.io/removed-node-name- --overwrite
within 120 'two members are left' has_members node2 'node2 node3'
docker restart --time 30 node1-k3s >/dev/null
sleep 10
before=$(restarts node1)
sleep 30
is 'node1: its restarts' "$before" "$(restarts node1)"
is 'node1: what runs' 'sh sleep' "$(docker top node1-k3s -o comm | tail -n +2 | sed 's/^node-entrypoint.*/sh/' | sort -u | tr '\n' ' ' | sed 's/ $//')"
is 'the identity' "$identity" "$(cluster_id node2)"

say 'and back, so that the inventory says what runs'
docker stop --time 30 node1-k3s >/dev/null
in_data node1 "mv $DB $DB.demoted.2"
kubectl_on node2 annotate node node1 etcd.k3s.cattle.io/remove- etcd.k3s.cattle.io/removed-node-name- --overwrite
write_file node1 role server
docker start node1-k3s >/dev/null
within 300 'node1 votes' has_voters node1 'node1 node2 node3'
