#!/bin/sh
# fleet-role-guards 1
#
# node-entrypoint.sh server|agent [K3S_ARGUMENT]...
#
# Starts Tailscale in the node's own container, then k3s, unless a guard says that this node must not start. The role
# directory decides: `role` holds server or agent, `join-url` the server that this node joins through. An absent `role`
# lets both services start; the other guards hold whatever `role` says. POSIX sh, with only what rancher/k3s has.

set -fu

role_dir=/etc/github-runner
server_dir=/var/lib/rancher/k3s/server
config_dir=/etc/rancher/k3s
mesh_state=/var/lib/tailscale/tailscaled.state
resolv_conf=/etc/k3s-resolv.conf
hosts_file=/etc/hosts

join_url_file=$role_dir/join-url
api_port=${K3S_API_PORT:-6443}
health_url=${K3S_MESH_SELF_HOSTED_HEALTH_URL:-}
join_key=${K3S_VPN_AUTH_JOIN_KEY:-}
login_server=${K3S_VPN_AUTH_CONTROL_SERVER_URL:-}

k3s_pid=
mesh_pid=
pause_pid=
login_pid=
watcher_pid=

say() {
  printf 'node-entrypoint: %s\n' "$1" >&2
}

# Waits $1 seconds. In the background, because a shell runs its traps only between commands and `wait` ends at once.
pause() {
  sleep "$1" &
  pause_pid=$!
  wait "$pause_pid"
  pause_pid=
}

# Ends what this shell runs beside k3s.
end_helpers() {
  for helper in "$pause_pid" "$login_pid" "$watcher_pid" "$mesh_pid"; do
    [ -z "$helper" ] || kill "$helper" 2>/dev/null
  done
  [ -z "$mesh_pid" ] || wait "$mesh_pid" 2>/dev/null
  mesh_pid=
}

# Asked to stop: k3s gets its time, and the shell waits for it.
stop() {
  trap '' TERM INT
  if [ -n "$k3s_pid" ]; then
    kill "$k3s_pid" 2>/dev/null
    wait "$k3s_pid"
  fi
  end_helpers
  exit 0
}

# Says why and stays up without k3s and Tailscale, so that no restart policy brings this service back. Never `exec
# sleep`: PID 1 gets only the signals that it handles, so `docker stop` would run into its timeout and kill it.
idle() {
  say "$1; idle until that changes and the service is restarted"
  trap 'kill "$pause_pid" 2>/dev/null; exit 0' TERM INT
  end_helpers
  while :; do
    sleep 3600 &
    pause_pid=$!
    wait "$pause_pid"
  done
}

# Says why and ends: the restart policy tries again, which reads the files again.
refuse() {
  say "$1"
  end_helpers
  exit 1
}

# --- the same lines in node-entrypoint.sh and fleet-role-is.sh: from here

is_there() {
  [ -e "$1" ] || [ -L "$1" ]
}

# The words of $1 with one space between them: white space, CR included, around the one word or URL is ignored.
squeeze() {
  # shellcheck disable=SC2046 # splitting is what it is for; set -f keeps names from being expanded
  set -- $(printf '%s\n' "$1" | LC_ALL=C sed 's/[[:space:]]/ /g')
  printf '%s' "$*"
}

# Sets `content` to the words of file $1, to nothing where there is no file; fails when what is there cannot be read.
read_words() {
  content=
  is_there "$1" || return 0
  if ! content=$(cat "$1" 2>/dev/null); then
    content=
    return 1
  fi
  content=$(squeeze "$content")
}

# Whether $1 is https://HOST[:PORT][/...]; sets `join_host`, an IPv6 address with its brackets.
is_https_url() {
  case $1 in
    *[[:space:]]*) return 1 ;;
    https://*) ;;
    *) return 1 ;;
  esac
  authority=${1#https://}
  authority=${authority%%[/?#]*}
  port=443
  case $authority in
    \[*\]:*) join_host=${authority%%\]*}] port=${authority#*\]:} ;;
    \[*\]) join_host=$authority ;;
    *:*) join_host=${authority%%:*} port=${authority#*:} ;;
    *) join_host=$authority ;;
  esac
  case $port in
    '' | *[!0-9]* | 0* | ??????*) return 1 ;;
  esac
  [ "$port" -le 65535 ] || return 1
  case $join_host in
    \[*:*\])
      bare=${join_host#\[}
      bare=${bare%\]}
      case $bare in
        *[!0-9A-Fa-f:.]*) return 1 ;;
      esac
      ;;
    '' | [.-]* | *[!A-Za-z0-9._-]*) return 1 ;;
  esac
  return 0
}

# What k3s would start from. The directories around it prove nothing: k3s makes db/etcd for SQLite too.
has_datastore() {
  [ -d "$server_dir/db/etcd/member/wal" ] || [ -f "$server_dir/db/state.db" ]
}

# Whether the datastore of a former member was set aside here, under db.demoted or, an older one, a numbered name.
has_set_aside() {
  set +f
  set -- "$server_dir"/db.demoted*
  set -f
  is_there "$1"
}

has_tombstone() {
  is_there "$server_dir/db/etcd/tombstone"
}

# The value of the top-level key $1 in the k3s configuration file $2; nothing for an empty one.
config_value() {
  LC_ALL=C sed -n "/^[\"']\{0,1\}$1[\"']\{0,1\}[[:space:]]*:/{
    s/^[^:]*://
    s/[[:space:]]#.*//
    s/[[:space:]\"']//g
    /^$/d
    /^~$/d
    /^null$/d
    p
  }" "$2" 2>/dev/null
}

# Whether k3s would find a token. An empty token file is none: k3s would read an empty token from it.
has_token() {
  [ -z "$(squeeze "${K3S_TOKEN:-}")" ] || return 0
  if [ -n "${K3S_TOKEN_FILE:-}" ] && read_words "$K3S_TOKEN_FILE" && [ -n "$content" ]; then
    return 0
  fi
  set +f
  set -- "$config_dir/config.yaml" "$config_dir"/config.yaml.d/*.yaml
  set -f
  for config in "$@"; do
    [ -f "$config" ] || continue
    [ -z "$(config_value token "$config")" ] || return 0
    token_file=$(config_value token-file "$config")
    if [ -n "$token_file" ] && read_words "$token_file" && [ -n "$content" ]; then
      return 0
    fi
  done
  return 1
}

# --- the same lines in node-entrypoint.sh and fleet-role-is.sh: to here

# Sets `join_url` to the one that counts, empty for none. A bad one is never taken as none: this node has one to join.
choose_join_url() {
  read_words "$join_url_file" || idle "$join_url_file cannot be read"
  join_url=$content
  if [ -z "$join_url" ]; then
    case $service in
      server) join_url=$(squeeze "${K3S_JOIN_SERVER_URL:-}") ;;
      agent) join_url=$(squeeze "${K3S_URL:-}") ;;
    esac
  fi
  [ -z "$join_url" ] || is_https_url "$join_url" || idle "the join URL '$join_url' is no https URL"
}

# Returns only when this service may start. Nothing is remembered between two calls: the files may change in between.
guards() {
  if is_there "$role_dir/role"; then
    read_words "$role_dir/role" || content=
    [ "$content" = "$service" ] || idle "role names '$content', not $service"
  fi

  if [ "$service" = server ] && has_tombstone; then
    idle "tombstone says this server's etcd member was removed"
  fi

  choose_join_url

  if [ "$service" = server ] && [ -z "$join_url" ] && has_set_aside && ! has_datastore; then
    refuse "this server was a member ($server_dir/db.demoted is there) and has no server to join: k3s would start a \
second cluster. Write the URL of a server of its cluster to $join_url_file or set K3S_JOIN_SERVER_URL"
  fi

  if [ "$service" = server ] && [ -n "$join_url" ] && ! has_datastore && ! has_token; then
    refuse "this server is to join $join_url and has no token: k3s would start a cluster of its own. Set K3S_TOKEN or \
K3S_TOKEN_FILE, or token in $config_dir/config.yaml"
  fi
}

# kubectl as a plain HTTP client, for the image has no other that speaks https: asks server $1 for path $2.
get_raw() {
  KUBECONFIG=/dev/null kubectl --server="$1" --insecure-skip-tls-verify --token=none --request-timeout=5s \
    get --raw "$2" </dev/null 2>&1
}

# Whether anything speaks HTTP at $1. A refusal (401 and the like) is an answer; what is not known as silence is one too.
answers() {
  answer=$(get_raw "$1" /ping) && return 0
  case $answer in
    *'Error from server'* | *'must be logged in'* | *Unauthorized* | *Forbidden*) return 0 ;;
    '' | *'nable to connect'* | *refused* | *imeout* | *'timed out'* | *'deadline exceeded'* | *'no such host'*) return 1 ;;
    *unreachable* | *'no route to host'* | *EOF* | *'reset by peer'* | *'not found'*) return 1 ;;
  esac
  return 0
}

# A server that would bootstrap asks every server address first whether a cluster is there already. Its own address
# does not answer yet. `guards` has refused a former member before.
ask_before_first_bootstrap() {
  if [ "$service" != server ] || [ -n "$join_url" ] || has_datastore; then
    return 0
  fi
  command -v kubectl >/dev/null 2>&1 || return 0
  for address in ${K3S_TLS_SAN_LIST:-}; do
    case $address in
      *:*) url="https://[$address]:$api_port" ;;
      *) url="https://$address:$api_port" ;;
    esac
    if answers "$url"; then
      refuse "a cluster answers at $address and this server has no server to join: k3s would start a second cluster. \
Write the URL of a server of that cluster to $join_url_file or set K3S_JOIN_SERVER_URL"
    fi
  done
}

# The program $1 as it is on PATH: busybox's shell would take its own applet of that name before the one installed.
program() {
  rest=$PATH:
  while [ -n "$rest" ]; do
    candidate=${rest%%:*}/$1
    rest=${rest#*:}
    if [ -f "$candidate" ] && [ -x "$candidate" ]; then
      printf '%s' "$candidate"
      return 0
    fi
  done
  printf '%s' "$1"
}

# Whether the host $1 of a join URL has an address. An address needs no look-up, and nslookup does not read the hosts file.
resolves() {
  case $1 in
    \[*) return 0 ;;
    *[!0-9.]*) ;;
    *) return 0 ;;
  esac
  # shellcheck disable=SC2016 # awk's own fields
  if awk -v name="$1" '{ sub(/#.*/, ""); for (i = 2; i <= NF; i++) if (tolower($i) == tolower(name)) found = 1 }
    END { exit !found }' "$hosts_file" 2>/dev/null; then
    return 0
  fi
  command -v nslookup >/dev/null 2>&1 || return 0
  lookup=$("$(program nslookup)" "$1" 2>&1 </dev/null)
  failed=$?
  # One of the two questions (A, AAAA) may fail while the other has an answer, and no answer at all is no failure.
  case $lookup in
    *Name:*) return 0 ;;
    *"an't find"* | *"an't resolve"*) return 1 ;;
  esac
  return "$failed"
}

# Waits until the host of the chosen URL resolves, where there is something to join. A server with a datastore is a
# member already and waits for nobody: a fleet that was powered off must come up.
await_join_host() {
  waits_for=
  while :; do
    guards
    [ -n "$join_url" ] || return 0
    if [ "$service" = server ] && has_datastore; then
      return 0
    fi
    if resolves "$join_host"; then
      return 0
    fi
    [ "$waits_for" = "$join_host" ] || say "waits until $join_host, the host of $join_url, resolves"
    waits_for=$join_host
    pause 2
  done
}

# All that comes between a mesh that is up and k3s; the guards last, because what is before them takes time.
before_start() {
  await_join_host
  ask_before_first_bootstrap
  guards
}

# Starts tailscaled and waits for an address. Logs in only when the state on disk does not: a join key may be for one
# use. `--reset`: the login fails when it does not name every setting that k3s has made.
join_mesh() {
  tailscaled --state="$mesh_state" >&2 &
  mesh_pid=$!
  looks=0
  until tailscale status >/dev/null 2>&1; do
    # The daemon says nothing, or NoState, until it has read its state.
    case $(tailscale status --json 2>/dev/null) in
      *NeedsLogin* | *NeedsMachineAuth* | *Stopped*) break ;;
    esac
    looks=$((looks + 1))
    [ "$looks" -lt 4 ] || break
    pause 1
  done
  asked_for_key=
  while :; do
    if ! tailscale status >/dev/null 2>&1; then
      if [ -n "$join_key" ]; then
        set -- --reset --authkey="$join_key" --timeout=30s
        [ -z "$login_server" ] || set -- "$@" --login-server="$login_server"
        tailscale up "$@" >&2 &
        login_pid=$!
        wait "$login_pid"
        login_pid=
      elif [ -z "$asked_for_key" ]; then
        say "Tailscale is not logged in and there is no key: set K3S_VPN_AUTH_JOIN_KEY"
        asked_for_key=yes
      fi
    fi
    # shellcheck disable=SC2046 # the first of the addresses, one a line
    set -- $(tailscale ip -4 2>/dev/null || tailscale ip -6 2>/dev/null)
    mesh_address=${1:-}
    [ -z "$mesh_address" ] || return 0
    kill -0 "$mesh_pid" 2>/dev/null || refuse "tailscaled has ended and left this node without an address"
    pause 2
    guards
  done
}

# Whoever waits for the kubeconfig must not be given the one of the last start.
announce() {
  rm -f "${K3S_KUBECONFIG_OUTPUT:-$config_dir/k3s.yaml}" 2>/dev/null
  echo 'Starting k3s'
}

# Starts k3s on the mesh with the user's arguments and then ours, which win. $1: exec or spawn.
start_on_mesh() {
  how=$1
  shift
  printf 'nameserver 100.100.100.100\n' >"$resolv_conf" || refuse "$resolv_conf cannot be written"
  set -- "$@" --node-ip "$mesh_address" --resolv-conf "$resolv_conf"
  if [ -n "$join_key" ]; then
    set -- "$@" --vpn-auth "name=tailscale,joinKey=$join_key${login_server:+,controlServerURL=$login_server}"
  fi
  if [ "$service" = server ]; then
    for name in ${K3S_TLS_SAN_LIST:-}; do
      set -- "$@" --tls-san "$name"
    done
  fi
  if [ -n "$join_url" ]; then
    set -- "$@" --server "$join_url"
  elif [ "$service" = server ] && [ "${K3S_DATASTORE:-etcd}" != sqlite ]; then
    set -- "$@" --cluster-init
  fi
  announce
  if [ "$how" = exec ]; then
    exec k3s "$service" "$@"
  fi
  k3s "$service" "$@" &
  k3s_pid=$!
}

# Waits for the k3s that this shell runs; it may end at any time, for one because its member was removed.
await_k3s() {
  wait "$k3s_pid"
  say "k3s has ended with status $?"
  k3s_pid=
}

# Whether the mesh can be joined: a key is there and Headscale answers. wget has no https in this image, kubectl has.
mesh_is_ready() {
  [ -n "$join_key" ] || return 1
  "$(program wget)" -q -T 5 -O /dev/null "$health_url" >/dev/null 2>&1 && return 0
  without_scheme=${health_url#*://}
  health_host=${without_scheme%%/*}
  health_path=${without_scheme#"$health_host"}
  get_raw "${health_url%%://*}://$health_host" "${health_path:-/}" >/dev/null
}

# Runs k3s off the mesh, on SQLite where there is no datastore yet, until it ends or the mesh is ready. Sets `on_mesh`.
run_off_mesh() {
  for name in ${K3S_TLS_SAN_LIST:-}; do
    set -- "$@" --tls-san "$name"
  done
  announce
  k3s server "$@" &
  k3s_pid=$!
  (
    # It ends by itself too: a signal that comes right after the fork is lost in some shells.
    until mesh_is_ready; do
      sleep 5
      kill -0 "$k3s_pid" 2>/dev/null || exit 1
    done
    kill "$k3s_pid" 2>/dev/null
    exit 0
  ) &
  watcher_pid=$!
  await_k3s
  kill "$watcher_pid" 2>/dev/null
  # The health URL may be served by the k3s that has just ended, so its answer is kept and not asked for again.
  if wait "$watcher_pid" 2>/dev/null; then
    on_mesh=yes
  fi
  watcher_pid=
}

# With cgroup v2 a group that has processes of its own cannot hand out controllers. k3s sees to that only as PID 1.
leave_root_cgroup() {
  if [ "$$" -ne 1 ] || ! [ -f /sys/fs/cgroup/cgroup.subtree_control ]; then
    return 0
  fi
  mkdir -p /sys/fs/cgroup/init 2>/dev/null || return 0
  while read -r process; do
    echo "$process" >/sys/fs/cgroup/init/cgroup.procs
  done </sys/fs/cgroup/cgroup.procs 2>/dev/null
  read -r controllers </sys/fs/cgroup/cgroup.controllers
  for controller in $controllers; do
    echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control
  done 2>/dev/null
}

# The cluster that runs its own Headscale: its bootstrap server starts k3s off the mesh until Headscale answers, then
# on it. The container stays up, so this shell starts k3s anew, and the guards come before each start.
supervise() {
  leave_root_cgroup
  on_mesh=
  waits_for=
  while :; do
    if [ -z "$on_mesh" ] && mesh_is_ready; then
      on_mesh=yes
    fi
    guards
    if [ -n "$on_mesh" ]; then
      break
    elif [ -z "$join_url" ] || has_datastore; then
      run_off_mesh "$@"
    elif [ -z "$waits_for" ]; then
      say "waits until $health_url answers: a server that is to join others starts nothing of its own before"
      waits_for=$health_url
    fi
    [ -n "$on_mesh" ] || pause 5
  done
  join_mesh
  while :; do
    before_start
    start_on_mesh spawn "$@"
    await_k3s
    pause 5
  done
}

service=${1:-}
case $service in
  server | agent) shift ;;
  *) refuse "usage: node-entrypoint.sh server|agent [K3S_ARGUMENT]..." ;;
esac
# An older project names the role in its `command` too.
if [ "${1:-}" = "$service" ]; then
  shift
fi

trap stop TERM INT

if [ "$service" = server ] && [ -n "$health_url" ]; then
  supervise "$@"
fi
guards
join_mesh
before_start
start_on_mesh exec "$@"
