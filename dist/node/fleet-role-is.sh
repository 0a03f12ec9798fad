#!/bin/sh
# fleet-role-guards 1
#
# fleet-role-is.sh ROLE ROLE_FILE [SERVER_DIR [JOIN_URL_FILE]]
#
# The ExecCondition of the systemd units k3s (ROLE server) and k3s-agent (ROLE agent). Exit 0: start. Exit 1: skip the
# start; systemd then neither calls the unit failed nor restarts it. Nothing else, for 255 would be retried. The unit's
# environment is this script's too. POSIX sh.

set -fu

role=${1:-}
role_file=${2:-}
server_dir=${3:-}
join_url_file=${4:-}
config_dir=/etc/rancher/k3s

skip() {
  printf 'fleet-role-is: %s; not started\n' "$1" >&2
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

# Whether the unit's own command line has a token, which no environment tells. systemd shows it with ` ; ` behind it.
# FLEET_ROLE_UNIT comes from the drop-in.
has_token_in_unit() {
  command -v systemctl >/dev/null 2>&1 || return 1
  case $(systemctl show --property=ExecStart --value "${FLEET_ROLE_UNIT:-k3s.service}" 2>/dev/null) in
    *' --token='[!\ ]* | *' --token '[!\;]* | *' -t '[!\;]* | *' --token-file='[!\ ]* | *' --token-file '[!\;]*) return 0 ;;
  esac
  return 1
}

case $role in
  server | agent) ;;
  *) skip "usage: fleet-role-is.sh server|agent ROLE_FILE [SERVER_DIR [JOIN_URL_FILE]]" ;;
esac
[ -n "$role_file" ] || skip "usage: fleet-role-is.sh server|agent ROLE_FILE [SERVER_DIR [JOIN_URL_FILE]]"

if is_there "$role_file"; then
  read_words "$role_file" || content=
  [ "$content" = "$role" ] || skip "role names '$content', not $role"
fi

[ "$role" = server ] || exit 0

# A server directory that is gone may be a disk that is not mounted: k3s would start anew in its place.
if [ -z "$server_dir" ] || ! [ -d "$server_dir" ]; then
  skip "the server directory '$server_dir' is not there"
fi
if has_tombstone; then
  skip "tombstone says this server's etcd member was removed"
fi

[ -n "$join_url_file" ] || exit 0

read_words "$join_url_file" || skip "$join_url_file cannot be read"
join_url=$content
if [ -z "$join_url" ]; then
  join_url=$(squeeze "${K3S_URL:-}")
elif [ -n "${FLEET_ROLE_UNIT:-}" ] && [ -z "${K3S_URL:-}" ] && ! has_datastore; then
  # What is in the file reaches k3s only through the environment file beside it.
  skip "$join_url_file holds a URL that the unit's environment has not in K3S_URL: k3s would start a cluster of its own"
fi
if [ -n "$join_url" ] && ! is_https_url "$join_url"; then
  skip "the join URL '$join_url' is no https URL"
fi
if [ -z "$join_url" ] && has_set_aside && ! has_datastore; then
  skip "this server was a member ($server_dir/db.demoted is there) and has no server to join: k3s would start a second \
cluster. Write K3S_URL to the environment file beside $role_file and the URL to $join_url_file"
fi
if [ -n "$join_url" ] && ! has_datastore && ! has_token && ! has_token_in_unit; then
  skip "this server is to join $join_url and has no token: k3s would start a cluster of its own. Set K3S_TOKEN or \
K3S_TOKEN_FILE, or token in $config_dir/config.yaml"
fi
exit 0
