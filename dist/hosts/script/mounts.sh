# shellcheck shell=sh disable=SC2154,SC2034
# Where the paths of a container lie on this host, as far as docker said and this user may look. Whatever is not sure
# is not told: then the look is made in a container.

# container_lines NAME: what docker said of that container, in lines of our own; empty when it described none.
container_lines() {
  lines_on=no
  while IFS= read -r lines_line; do
    case $lines_line in
      'fleet-role '*' {"id":"'*'","name":"/'"$1"'",'*) lines_on=yes ;;
      'fleet-role '*) lines_on=no ;;
    esac
    [ "$lines_on" = no ] || printf '%s\n' "$lines_line"
  done <<INSPECT
$docker_said
INSPECT
}

# unquote TEXT: the text between its quotes. Fails when something in it had to be escaped: no path of ours looks like that.
unquote() {
  unquoted=${1#\"}
  unquoted=${unquoted%\"}
  case $unquoted in *\\* | *\"*) return 1 ;; esac
}

# use_container NAME: it is that container that `place` speaks of. Fails when docker described none of that name.
use_container() {
  node_pid='' node_id='' node_image='' node_mounts='' node_layers='' node_words='' node_token=no node_token_file=''
  node_here=no node_new=no node_odd=no node_name='' node_host_name='' node_policy=''
  node_lines=$(container_lines "$1")
  [ -n "$node_lines" ] || return 1
  while read -r node_key node_rest; do
    case $node_key in
      fleet-role)
        node_id=${node_rest#*'{"id":"'}
        node_id=${node_id%%\"*}
        # Only a process that was seen to be the container's own.
        case $services_lines in
          *"container yes {\"id\":\"$node_id\""* | *"container no {\"id\":\"$node_id\""*)
            node_pid=${node_rest%% *}
            node_here=yes
            ;;
        esac
        ;;
      fleet-role-image) node_image=$node_rest ;;
      fleet-role-mount)
        case $node_rest in *\\*) node_odd=yes ;; esac
        node_mounts=$node_mounts$node_rest$newline
        ;;
      fleet-role-layers)
        if unquote "$node_rest" && [ -n "$unquoted" ]; then
          node_layers=$unquoted
          [ ! -d "${unquoted%%:*}" ] || node_here=yes
        fi
        ;;
      fleet-role-file) if unquote "$node_rest" && [ -n "$unquoted" ] && [ -e "$unquoted" ]; then node_here=yes; fi ;;
      fleet-role-word) node_words=$node_words$node_rest$newline ;;
      fleet-role-token) node_token=yes ;;
      fleet-role-node-name) if unquote "$node_rest"; then node_name=${unquoted#K3S_NODE_NAME=}; fi ;;
      fleet-role-host-name) if unquote "$node_rest"; then node_host_name=$unquoted; fi ;;
      fleet-role-policy) node_policy=${node_rest%:0} ;;
      fleet-role-token-file) if unquote "$node_rest"; then node_token_file=${unquoted#K3S_TOKEN_FILE=}; else node_odd=yes; fi ;;
    esac
  done <<LINES
$node_lines
LINES
}

# mount_for PATH: the mount that the path lies in, the nearest one. Fails when there is none.
mount_for() {
  mount_target=
  while read -r mount_kind_ mount_driver_ mount_rest_; do
    mount_rest_=${mount_rest_#\"}
    mount_target_=${mount_rest_%%\"*}
    case $1/ in
      "$mount_target_"/*)
        [ "${#mount_target_}" -ge "${#mount_target}" ] || continue
        mount_kind=$mount_kind_
        mount_driver=$mount_driver_
        mount_target=$mount_target_
        mount_source=${mount_rest_#*\" \"}
        mount_source=${mount_source%\"}
        ;;
    esac
  done <<MOUNTS
$node_mounts
MOUNTS
  [ -n "$mount_target" ]
}

# without_links BASE REST: whether no part of REST below BASE is a link. In the container a link leads somewhere else.
without_links() {
  links_at=$1
  links_rest=${2#/}
  while [ -n "$links_rest" ]; do
    links_at=$links_at/${links_rest%%/*}
    [ ! -L "$links_at" ] || return 1
    case $links_rest in
      */*) links_rest=${links_rest#*/} ;;
      *) links_rest= ;;
    esac
  done
}

# place PATH: sets `placed` to where the container's path lies on this host: 0. 3: it is not there. Else it cannot be told.
place() {
  placed=
  placed_live=no
  [ "$node_odd" = no ] && [ "$node_here" = yes ] || return 1
  if mount_for "$1"; then
    case $mount_kind in
      new) return 3 ;;
      bind) ;;
      volume)
        # One with options of its own is there only while a container uses it.
        if [ "$mount_driver" != local ] || [ -e "${mount_source%/_data}/opts.json" ]; then return 1; fi
        ;;
      *) return 1 ;;
    esac
    if [ ! -e "$mount_source" ]; then
      # Docker would make it, or stop; only where there is no container at all this means that there is nothing.
      [ "$node_new" = yes ] && [ ! -L "$mount_source" ] && reachable "$mount_source" && return 3
      return 1
    fi
    placed=$mount_source${1#"$mount_target"}
    without_links "$mount_source" "${1#"$mount_target"}"
    return
  fi
  # No container, and no mount that was asked for: a volume without a name, which belongs to a container. Compose, too,
  # has none of that name for a moment while it creates one again with the volume of the old one.
  [ "$node_new" = no ] || return 1
  place_layer "$1"
  case $? in
    0) return 0 ;;
    3) return 3 ;;
  esac
  place_live "$1"
}

# place_layer PATH: in the image or in what the container wrote. The first layer that has it counts. Not the data: a folder
# may be in several layers, and what is in it would have to be put together.
place_layer() {
  [ -n "$node_layers" ] && [ -d "${node_layers%%:*}" ] || return 1
  case $1/ in "$server_path"/*) return 1 ;; esac
  layer_at=
  layer_rest=${1#/}
  while [ -n "$layer_rest" ]; do
    layer_at=$layer_at/${layer_rest%%/*}
    layer_found=
    layer_list=$node_layers
    while [ -n "$layer_list" ]; do
      layer=${layer_list%%:*}
      case $layer_list in
        *:*) layer_list=${layer_list#*:} ;;
        *) layer_list= ;;
      esac
      reachable "$layer$layer_at" || return 1
      [ ! -L "$layer$layer_at" ] || return 1
      [ -e "$layer$layer_at" ] || continue
      layer_found=$layer$layer_at
      break
    done
    # A character device stands for something that was removed.
    if [ -z "$layer_found" ] || [ -c "$layer_found" ]; then return 3; fi
    case $layer_rest in
      */*) layer_rest=${layer_rest#*/} ;;
      *) layer_rest= ;;
    esac
  done
  placed=$layer_found
}

# place_live PATH: through the container's own process, for those who may.
place_live() {
  [ -n "$node_pid" ] && [ -d "/proc/$node_pid/root/." ] || return 1
  placed=/proc/$node_pid/root$1
  placed_live=yes
  without_links "/proc/$node_pid/root" "$1"
}

still_there() { [ "$placed_live" = no ] || [ -d "/proc/$node_pid/root/." ]; }

# place_folder PATH: sets `folders` to where its files lie, one a line. Fails when that cannot be told.
place_folder() {
  folders=
  place "$1"
  case $? in
    0) ;;
    3) return 0 ;;
    *) return 1 ;;
  esac
  folders=$placed
  if [ "$placed_live" = yes ] || mount_for "$1"; then return 0; fi
  folders=$(split_list "$node_layers" : | while IFS= read -r layer; do
    if [ -d "$layer$1" ]; then printf '%s\n' "$layer$1"; fi
  done)
}

next_folder() {
  [ -n "$folders" ] || return 1
  folder=${folders%%"$newline"*}
  case $folders in
    *"$newline"*) folders=${folders#*"$newline"} ;;
    *) folders= ;;
  esac
}

# A program without a path is looked up where it runs.
program_path() { return 1; }

# entry_path: sets `entry_path` to the file that the container in use starts with: the first word that is no shell and
# no helper. Empty when there is none: `entrypoint` is then foreign for a script that stands in the command itself.
entry_path() {
  entry_path='' entrypoint=unknown
  while IFS= read -r entry_word; do
    unquote "$entry_word" || return 0
    case $unquoted in
      sh | */sh | bash | */bash | ash | */ash | dash | */dash | busybox | */busybox) ;;
      tini | */tini | docker-init | */docker-init | dumb-init | */dumb-init | catatonit | */catatonit | env | */env) ;;
      -c)
        entrypoint=foreign
        return 0
        ;;
      -*) ;;
      *)
        entry_path=$unquoted
        return 0
        ;;
    esac
  done <<WORDS
$node_words
WORDS
}
