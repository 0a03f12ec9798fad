# shellcheck shell=sh disable=SC2154,SC2034
# What lies in a node, by the paths that its container has for it. One program for two places: here, where `place` says
# where the path lies on this host, and in a container (`docker run`), where it lies at itself. So it uses nothing that
# the image of a node lacks.

# shellcheck disable=SC2016 # it is expanded where it runs
inside_program='
server_path=/var/lib/rancher/k3s/server
config_path=/etc/rancher/k3s
apostrophe=$(printf "\047")

# reachable PATH: fails when it cannot be told whether the path exists, because a directory above it may not be entered.
reachable() {
  case $1 in /*) ;; *) return 1 ;; esac
  reachable=$1
  while [ ! -e "$reachable" ] && [ "$reachable" != / ]; do
    reachable=${reachable%/*}
    [ -n "$reachable" ] || reachable=/
  done
  [ -d "$reachable" ] || return 0
  [ -x "$reachable" ] && { [ "$reachable" != "$1" ] || [ -r "$reachable" ]; }
}

# kind_of PATH: sets kind to directory, file, other, none or unknown; placed is where it was looked for.
kind_of() {
  kind=unknown
  # From where another path counts only k3s knows.
  case $1 in /*) ;; *) return 0 ;; esac
  place "$1"
  case $? in
    0) ;;
    3) kind=none && return 0 ;;
    *) return 0 ;;
  esac
  if [ -d "$placed" ]; then
    kind=directory
  elif [ -f "$placed" ]; then
    kind=file
  elif [ -e "$placed" ] || [ -L "$placed" ]; then
    kind=other
  elif reachable "$placed"; then
    kind=none
  fi
  # A process that has ended leaves nothing to look at, which is not the same as nothing.
  [ "$kind" != none ] || still_there || kind=unknown
}

# look_data: sets datastore, tombstone and set_aside.
look_data() {
  datastore=unknown tombstone=yes set_aside=unknown
  kind_of "$server_path/db/etcd/member/wal"
  if [ "$kind" = directory ]; then
    datastore=etcd
  elif [ "$kind" != unknown ]; then
    kind_of "$server_path/db/state.db"
    case $kind in
      file) datastore=sqlite ;;
      unknown) ;;
      *) datastore=none ;;
    esac
  fi
  kind_of "$server_path/db/etcd/tombstone"
  case $kind in
    none) tombstone=no ;;
    unknown) tombstone=unknown ;;
  esac
  kind_of "$server_path"
  case $kind in
    none) set_aside=no ;;
    directory)
      if [ -r "$placed" ] && [ -x "$placed" ]; then
        set_aside=no
        for aside in "$placed"/db.demoted*; do
          if [ -e "$aside" ] || [ -L "$aside" ]; then set_aside=yes; fi
        done
        still_there || set_aside=unknown
      fi
      ;;
  esac
}

# device_of DIRECTORY: the file system that it is on.
device_of() { df -P "$1" 2>/dev/null | sed -n "2s/^\([^ ]*\) .* \([^ ]*\)\$/\1 \2/p"; }

# look_file_system: sets one_file_system: whether server/db can be renamed to a name beside it. What is mounted there, or
# below, would stay where it is.
look_file_system() {
  one_file_system=unknown
  kind_of "$server_path"
  case $kind in
    none) one_file_system=yes ;;
    directory)
      server_placed=$placed
      kind_of "$server_path/db"
      case $kind in
        none) one_file_system=yes ;;
        directory)
          if [ -L "$placed" ]; then
            one_file_system=no
          else
            device=$(device_of "$server_placed")
            device_below=$(device_of "$placed")
            [ -z "$device" ] || [ -z "$device_below" ] || one_file_system=no
            [ "$one_file_system" = unknown ] || [ "$device" != "$device_below" ] || one_file_system=yes
          fi
          ;;
      esac
      still_there || one_file_system=unknown
      ;;
  esac
}

# beginning FILE: at most its first 256 KiB. A file may be a big program, or have no end of a line.
beginning() {
  if command -v head >/dev/null 2>&1; then head -c 262144 "$1" 2>/dev/null; else cat "$1" 2>/dev/null; fi
}

# holds_text PATH: whether that token file holds more than white space. An empty one is no token.
holds_text() {
  kind_of "$1"
  case $kind in
    file)
      if [ ! -r "$placed" ]; then
        token_unknown=yes
      elif [ -n "$(beginning "$placed" | sed -n "/[^[:space:]]/{p;q;}")" ]; then
        return 0
      fi
      ;;
    none | directory) ;;
    *) token_unknown=yes ;;
  esac
  return 1
}

# value_in KEY FILE: the value of a top-level key of a k3s configuration file, empty when it has none.
value_in() {
  beginning "$2" | sed -n "/^[\"$apostrophe]\{0,1\}$1[\"$apostrophe]\{0,1\}[[:space:]]*:/{
    s/^[^:]*://
    s/[[:space:]]#.*//
    s/[[:space:]\"$apostrophe]//g
    /^~\{0,1\}\$/d
    /^null\$/d
    p
  }"
}

# configures_token FILE
configures_token() {
  if [ ! -r "$1" ]; then
    token_unknown=yes
    return 1
  fi
  [ -z "$(value_in token "$1")" ] || return 0
  configured=$(value_in token-file "$1")
  [ -n "$configured" ] && holds_text "$configured"
}

# look_token [FILE]: sets token to yes, no or unknown, by the file of K3S_TOKEN_FILE and the configuration of k3s.
look_token() {
  token=yes token_unknown=no
  [ -z "$1" ] || ! holds_text "$1" || return 0
  kind_of "$config_path/config.yaml"
  case $kind in
    file) ! configures_token "$placed" || return 0 ;;
    unknown) token_unknown=yes ;;
  esac
  if place_folder "$config_path/config.yaml.d"; then
    while next_folder; do
      [ -d "$folder" ] || continue
      if [ ! -r "$folder" ] || [ ! -x "$folder" ]; then token_unknown=yes; fi
      for config in "$folder"/*.yaml; do
        [ ! -f "$config" ] || ! configures_token "$config" || return 0
      done
    done
    still_there || token_unknown=yes
  else
    token_unknown=yes
  fi
  token=no
  [ "$token_unknown" = no ] || token=unknown
}

# look_entrypoint PATH: sets entrypoint to ours, honours, foreign or unknown, and guards to the version that it names.
# Ours is known by its name and its second line. Only the beginning is read: some are big programs.
look_entrypoint() {
  entrypoint=unknown guards=
  case $1 in
    /*) entry=$1 ;;
    *) entry=$(program_path "$1") || return 0 ;;
  esac
  kind_of "$entry"
  [ "$kind" = file ] && [ -r "$placed" ] || return 0
  marks=$(beginning "$placed" | sed -n "/^# fleet-role-guards\([[:space:]].*\)\{0,1\}\$/{=;p;}") || return 0
  entrypoint=foreign
  [ -n "$marks" ] || return 0
  entrypoint=honours
  guards=$(printf "%s\n" "$marks" | sed -n "2{s/^# fleet-role-guards//;s/[[:space:]]//g;p;}")
  case ${entry##*/} in
    node-entrypoint.sh) [ "${marks%%[!0-9]*}" != 2 ] || entrypoint=ours ;;
  esac
}
'
eval "$inside_program"

# What it needs in a container, where everything lies at its own path. Its words: what to look at (d, t), the file of
# K3S_TOKEN_FILE, the entrypoints, and the seconds that it may take. No here-documents: it has no place to write to.
# Whatever happens, the container does not outlive its question. Its first process only waits, so that it ends at once
# when docker hands on that it should, or when its time is over; the kernel then ends the rest.
# shellcheck disable=SC2016 # it is expanded where it runs
inside_container='
place() { placed=$1; }
place_folder() { folders=$1; }
next_folder() { folder=$folders; folders=; [ -n "$folder" ]; }
still_there() { :; }
# By hand: the shell would name an applet of its own before the program.
program_path() {
  case $1 in */*) return 1 ;; esac
  rest=$PATH:
  while [ -n "$rest" ]; do
    candidate=${rest%%:*}/$1
    rest=${rest#*:}
    case $candidate in
      /*) if [ -f "$candidate" ]; then echo "$candidate" && return 0; fi ;;
    esac
  done
  return 1
}
answer() {
  # Without it everything would look empty.
  sed -n p </dev/null || return 1
  case $1 in
    *d*)
      look_data
      look_file_system
      echo "fleet-role-data $datastore $tombstone $set_aside $one_file_system"
      ;;
  esac
  case $1 in
    *t*)
      look_token "$2"
      echo "fleet-role-token $token"
      ;;
  esac
  for service in k3s k3s-agent; do
    shift
    [ -n "$2" ] || continue
    look_entrypoint "$2"
    echo "fleet-role-entrypoint $service $entrypoint $guards"
  done
  echo fleet-role-end
}
trap "exit 1" TERM INT HUP
(sleep "$5"; kill -TERM "$$") >/dev/null 2>&1 &
answer "$@" &
wait "$!"
'
