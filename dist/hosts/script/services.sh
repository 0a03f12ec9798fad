# shellcheck shell=sh disable=SC2154,SC2034
# Steps on a service of a Compose project. Each looks first, acts only where something is to be done, and looks again: what
# a command said of itself is no proof.

# look_at SERVICE: sets at_id, at_status, at_exit, at_k3s (whether k3s runs in it: yes, no, gone, unknown) and at_policy of
# its container, which is then the one in use; at_id is empty where it has none. Fails where docker did not say.
look_at() {
  at_id='' at_status=absent at_exit='' at_k3s=no at_policy=''
  case $1 in
    k3s) at_name=$container_k3s ;;
    k3s-agent) at_name=$container_agent ;;
    *)
      fail 'the step names no service'
      return 1
      ;;
  esac
  if ! has docker; then
    fail 'there is no docker on this host'
    return 1
  fi
  ask_containers
  described=$docker_said
  if ! use_container "$at_name"; then
    is_missing container "$at_name" && return 0
    fail "docker: $(words "$docker_said")"
    return 1
  fi
  at_id=$node_id
  at_policy=${node_policy:-no}
  at_line=${node_lines%%"$newline"*}
  at_status=${at_line#*'"status":"'}
  at_status=${at_status%%\"*}
  at_exit=${at_line#*'"exitCode":'}
  at_exit=${at_exit%%,*}
  case $newline$services_lines in
    *"${newline}container yes {\"id\":\"$at_id\""*) at_k3s=yes ;;
    *"${newline}container no {\"id\":\"$at_id\""*) ;;
    *) at_k3s=unknown ;;
  esac
}

# is_up: whether the container that was looked at runs, or will by itself.
is_up() { case $at_status in running | restarting | paused | removing) return 0 ;; *) return 1 ;; esac }

# mounts_role_directory: whether the container in use has the role directory of this host.
mounts_role_directory() {
  mount_for /etc/github-runner && [ "$mount_target" = /etc/github-runner ] || return 1
  [ "$mount_source" = "$role_directory" ] || [ "$mount_source" = "$(cd "$role_directory" 2>/dev/null && pwd -P)" ]
}

# data_place: where the data of the container in use lies, in words.
data_place() { if mount_for "$server_path"; then printf '%s' "$mount_kind $mount_source"; else printf 'no volume'; fi; }

# compose_up ARGUMENT...: once more where a container stood in the way that Compose itself had left when it was killed: it
# removes that one, and then fails on its name.
compose_up() {
  run_compose "$step_seconds" up -d --no-deps "$@" && return 0
  case $docker_said in
    *'is already in use'*) run_compose "$step_seconds" up -d --no-deps "$@" ;;
    *) return 1 ;;
  esac
}

# step_restart_policy SERVICE =POLICY: the policy that is replaced by `no` is written down first, and only once.
step_restart_policy() {
  decode "$2"
  policy=$decoded
  case $policy in
    no | always | unless-stopped | on-failure) ;;
    on-failure:*[!0-9]* | on-failure:)
      fail 'the step names no restart policy'
      return 1
      ;;
    on-failure:*) ;;
    *)
      fail 'the step names no restart policy'
      return 1
      ;;
  esac
  look_at "$1" || return 1
  if [ -z "$at_id" ]; then
    fail "there is no container $at_name whose restart policy could be set"
    return 1
  fi
  if [ "$at_policy" != "$policy" ]; then
    if [ "$policy" = no ] && [ ! -e "$role_directory/restart-policy" ]; then
      put_word restart-policy "=$at_policy" || return 1
    fi
    run_docker "$docker_seconds" update --restart "$policy" "$at_name" || {
      fail "docker update: $(words "$docker_said")"
      return 1
    }
    look_at "$1" || return 1
    if [ "$at_policy" != "$policy" ]; then
      fail "the restart policy of $at_name is still ${at_policy:-unknown}"
      return 1
    fi
  fi
  [ "$policy" = no ] || drop "$role_directory/restart-policy"
}

# step_recreate SERVICE: its container is a new one that mounts the role directory and was never started.
step_recreate() {
  look_at "$1" || return 1
  list_override || return 1
  if [ "$at_status" = created ] && mounts_role_directory; then return 0; fi
  recreate_id=$at_id
  recreate_data=$(data_place)
  # Compose itself would give a server only ten seconds to stop.
  step_stop "$1" || return 1
  compose_up --no-start --force-recreate "$1" || return 1
  look_at "$1" || return 1
  if [ -z "$at_id" ] || [ "$at_id" = "$recreate_id" ]; then
    fail "docker compose did not create $at_name again"
  elif is_up; then
    fail "$at_name was started, and was not to be"
  elif ! mounts_role_directory; then
    fail "the new $at_name does not mount $role_directory: see what stands after it in the list of Compose files"
  elif [ -n "$recreate_id" ] && [ "$(data_place)" != "$recreate_data" ]; then
    fail "the new $at_name has its data in another place ($(data_place), before: $recreate_data): correct COMPOSE_FILE in $directory/.env, or the Compose files, and create it again"
  fi
}

# step_start SERVICE: one that idles or refuses is up and would be left so by `up -d`.
step_start() {
  look_at "$1" || return 1
  case $at_status in
    running | restarting)
      case $at_status$at_k3s in
        runningyes) return 0 ;;
        runningunknown)
          fail "it cannot be seen whether k3s runs in $at_name, so it is not restarted: connect as a user who may see its processes, or set ansible_become"
          return 1
          ;;
      esac
      run_docker "$step_seconds" restart -t 30 "$at_name" || {
        fail "docker restart: $(words "$docker_said")"
        return 1
      }
      ;;
    paused | removing)
      fail "$at_name is $at_status: see what somebody does with it, then run this again"
      return 1
      ;;
    *)
      env_look || return 1
      if [ -f "$override_path" ]; then
        list_override || return 1
      elif [ "$env_listed" = yes ]; then
        fail "COMPOSE_FILE in $directory/.env names $override_name, which is not there"
        return 1
      fi
      # Where a Compose that was killed left the container under another name, only creating it again gives it its own.
      if [ -n "$at_id" ]; then compose_up "$1"; else compose_up --force-recreate "$1"; fi || return 1
      ;;
  esac
  # The entrypoint has things to do before k3s: what is asked at once would look idle.
  start_looks=0
  while look_at "$1" || return 1; do
    [ "$at_status$at_k3s" = runningno ] && [ "$start_looks" -lt 20 ] || break
    start_looks=$((start_looks + 1))
    sleep 1
  done
  case $at_status in
    running | restarting) ;;
    *) fail "$at_name was started and is $at_status (exit status ${at_exit:-unknown}): see its log" ;;
  esac
}

# step_stop SERVICE
step_stop() {
  look_at "$1" || return 1
  is_up || return 0
  run_compose "$step_seconds" stop -t 30 "$1" || return 1
  look_at "$1" || return 1
  ! is_up || fail "$at_name is still $at_status"
}

# Renames, here and in a container alike. What is set aside is kept for ever: an older one gets the next free number.
# shellcheck disable=SC2016 # it is expanded where it runs
aside_program='
exists() { [ -e "$1" ] || [ -L "$1" ]; }
# set_aside DIRECTORY NAME...
set_aside() {
  aside_in=$1
  shift
  for aside_name; do
    exists "$aside_in/$aside_name" || continue
    if exists "$aside_in/$aside_name.demoted"; then
      aside_number=1
      while exists "$aside_in/$aside_name.demoted.$aside_number"; do aside_number=$((aside_number + 1)); done
      mv "$aside_in/$aside_name.demoted" "$aside_in/$aside_name.demoted.$aside_number" || return 1
    fi
    mv "$aside_in/$aside_name" "$aside_in/$aside_name.demoted" || return 1
    if exists "$aside_in/$aside_name" || ! exists "$aside_in/$aside_name.demoted"; then
      echo "$aside_in/$aside_name is still there"
      return 1
    fi
  done
  sync
}
'
eval "$aside_program"

# What it needs in a container: the seconds that it may take, then the names. See inside_container.
# shellcheck disable=SC2016 # it is expanded where it runs
aside_container='
place() { placed=$1; }
still_there() { :; }
answer() {
  sed -n p </dev/null || return 1
  look_file_system
  case $one_file_system in
    yes) ;;
    no) echo "fleet-role-words $not_one" && return 1 ;;
    *) echo "fleet-role-words it cannot be told whether $server_path/db can be renamed" && return 1 ;;
  esac
  [ ! -d "$server_path" ] || set_aside "$server_path" "$@" || return 1
  echo fleet-role-end
}
seconds=$1
shift
trap "exit 1" TERM INT HUP
(sleep "$seconds"; kill -TERM "$$") >/dev/null 2>&1 &
answer "$@" &
wait "$!"
'
not_one="server/db is on another file system than the directory that it is in, or a mount or link, and cannot be set aside: move what it holds into one file system by hand"

# step_aside =NAMES: `db`, or `db tls cred` for a datastore of another identity.
step_aside() {
  decode "$1"
  case $decoded in
    db) set -- db ;;
    'db tls cred') set -- db tls cred ;;
    *)
      fail 'the step names nothing that can be set aside'
      return 1
      ;;
  esac
  look_at k3s || return 1
  if is_up; then
    fail "$at_name is $at_status, and a datastore in use is not moved: stop it first"
    return 1
  fi
  remove_left_look
  if [ -n "$at_id" ]; then data_in=$at_name; else data_without_container || return 1; fi
  can_rename
  if [ "$one_file_system" = no ]; then
    fail "$not_one"
    return 1
  fi
  kind_of "$server_path"
  [ "$kind" != none ] || return 0
  if [ "$kind$one_file_system" = directoryyes ] && [ -r "$placed" ] && [ -w "$placed" ] && [ -x "$placed" ]; then
    aside_said=$(set_aside "$placed" "$@" 2>&1) && return 0
    fail "cannot set the datastore aside: $(words "$aside_said")"
    return 1
  fi
  aside_inside "$@"
}

# data_without_container: makes that in use which shows the data of a `k3s` that has no container.
data_without_container() {
  data_why='' agent_here=no data_in=''
  ! local_engine || agent_here=yes
  agent_mounts=''
  if use_container "$container_agent"; then agent_mounts=$node_mounts; fi
  if project_mounts && shares_mounts && use_container "$container_agent"; then
    data_in=$container_agent
    return 0
  fi
  if [ -z "$data_why" ] && { [ -z "$mounts_names" ] || name_volumes; } && [ "$node_mounts" != "" ]; then
    node_layers='' node_pid='' node_odd=no node_new=yes node_here=$agent_here
    node_mounts=$(printf '%s' "$node_mounts" | sort -u)$newline
    can_rename
    [ "$one_file_system" = unknown ] || return 0
  fi
  fail "${data_why:-k3s has no container, and where its data lies cannot be looked into}: create it with docker compose up --no-start k3s, then run this again"
}

# aside_inside NAME...: in a container of the same image with the same volumes.
aside_inside() {
  if [ -z "$data_in" ] || ! use_container "$data_in" || [ -z "$node_image" ] || ! mount_for "$server_path/db"; then
    fail "the data of k3s is in no volume, or $(id -un) may not change it: set ansible_become"
    return 1
  fi
  if lost_source; then
    fail "$lost_source, which $data_in mounts, is not there"
    return 1
  fi
  run_look --volumes-from "$node_id" --pull never --network none --read-only --user 0:0 \
    --entrypoint sh "$node_image" -c "not_one='$not_one'$newline$inside_program$aside_program$aside_container" sh "$docker_seconds" "$@"
  case $newline$docker_said in
    *"${newline}fleet-role-end"*) return 0 ;;
    *fleet-role-words*) fail "$(words "${docker_said##*fleet-role-words }")" ;;
    *) fail "cannot set the datastore aside in a container: $(words "$docker_said")" ;;
  esac
}

# runtime_seen: whether both services still have the containers that were seen.
runtime_seen() {
  if ! has docker; then
    fail 'there is no docker on this host'
    return 1
  fi
  run_docker "$docker_seconds" inspect --type container --format 'fleet-role {{.Name}} {{.Id}}' "$container_k3s" "$container_agent"
  while read -r seen_service seen_id; do
    case $seen_service in
      k3s) seen_name=$container_k3s ;;
      k3s-agent) seen_name=$container_agent ;;
      *) continue ;;
    esac
    decode "$seen_id"
    seen_line="${newline}fleet-role /$seen_name "
    case $newline$docker_said$newline in
      *"$seen_line$decoded$newline"*) [ -z "$decoded" ] || continue ;;
      *"$seen_line"*) ;;
      *)
        if ! is_missing container "$seen_name"; then
          fail "docker: $(words "$docker_said")"
          return 1
        fi
        [ -n "$decoded" ] || continue
        ;;
    esac
    fail "the container $seen_name has changed since it was looked at; run this again"
    return 1
  done <<SEEN
$seen_services
SEEN
}
