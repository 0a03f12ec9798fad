# shellcheck shell=sh disable=SC2154,SC2034
# What else there is to know of a node in containers: its name, its password, and whether its datastore can be renamed.

# mounted_below PATH: whether the container in use has a mount at that path or below.
mounted_below() {
  while read -r below_kind below_driver below_rest; do
    below_rest=${below_rest#\"}
    case ${below_rest%%\"*}/ in "$1"/*) return 0 ;; esac
  done <<MOUNTS
$node_mounts
MOUNTS
  return 1
}

# can_rename: sets one_file_system for the container in use.
can_rename() {
  if mounted_below "$server_path/db"; then one_file_system=no; else look_file_system; fi
}

# named_in_words: the node name that the words of the container in use give, empty when they give none.
named_in_words() {
  named_next=no
  while IFS= read -r named_word; do
    unquote "$named_word" || continue
    if [ "$named_next" = yes ]; then
      printf '%s' "$unquoted"
      return 0
    fi
    case $unquoted in
      --node-name) named_next=yes ;;
      --node-name=*)
        printf '%s' "${unquoted#--node-name=}"
        return 0
        ;;
    esac
  done <<WORDS
$node_words
WORDS
}

# node_named: the name that k3s takes in the container in use: what it is told, else the host name, in lower case.
node_named() {
  named=$(named_in_words)
  [ -n "$named" ] || named=$node_name
  [ -n "$named" ] || named=$node_host_name
  printf '%s' "$named" | tr '[:upper:]' '[:lower:]'
}

# look_name: that of the container in which k3s runs, else of the one that is there.
look_name() {
  name_of=
  for name_container in "$container_k3s" "$container_agent"; do
    use_container "$name_container" || continue
    case $services_lines in
      *"container yes {\"id\":\"$node_id\""*)
        name_of=$(node_named)
        break
        ;;
    esac
    [ -n "$name_of" ] || name_of=$(node_named)
  done
  say node-name "$name_of"
}

# password_place: where the password of the container in use lies, empty when it is in the container itself.
password_place() {
  password_path=/etc/rancher/node/password
  if [ "$node_odd" = yes ]; then
    printf unknown
  elif mount_for "$password_path" && [ "$mount_kind" != tmpfs ]; then
    printf '%s' "$mount_kind $mount_source${password_path#"$mount_target"}"
  fi
}

# look_password: whether both services have one node password, in one mount.
look_password() {
  password_shared=unknown password_why=
  if use_container "$container_k3s"; then
    password_k3s=$(password_place)
    if use_container "$container_agent"; then
      password_agent=$(password_place)
      case $password_k3s$password_agent in
        *unknown*) password_why='docker names an odd path in a mount' ;;
        *)
          password_shared=no
          if [ -n "$password_k3s" ] && [ "$password_k3s" = "$password_agent" ]; then password_shared=yes; fi
          ;;
      esac
    elif [ -z "$password_k3s" ]; then
      password_shared=no
    fi
  fi
  say password-shared "$password_shared"
  say password-why "${password_why:-both services have to have a container before this can be told}"
}
