# shellcheck shell=sh disable=SC2154,SC2034
# What is done on a host with systemd units. Some functions here take the place of those of files.sh.

# Seconds that k3s gets to end. systemd itself goes on after them, and kills it after the TimeoutStopSec of the unit.
stop_seconds=30

# has_project: whether there is a directory to work in. Units are root's, and so is the role directory, which no step of
# its own makes here.
has_project() {
  if [ "$(id -u)" != 0 ]; then
    fail "$(id -un) may not change systemd units: set ansible_become: true, or connect as root"
    return 1
  fi
  make_directory "$role_directory"
}

# make_directory PATH [MODE]
make_directory() {
  [ ! -d "$1" ] || return 0
  # shellcheck disable=SC2174 # the directories above it are like any others
  make_said=$(mkdir -p -m "${2:-0755}" "$1" 2>&1) && flush "${1%/*}" && return 0
  fail "cannot make $1: $(words "$make_said")"
}

# reload: systemd reads its units again, and the drop-ins with them. Nothing is started or stopped by it.
reload() {
  run_systemctl "$docker_seconds" daemon-reload && return 0
  fail "systemctl daemon-reload: $(words "$systemctl_said")"
}

# proved_guarded NAME...: whether each of these units that is there meets our guard at its next start.
proved_guarded() {
  for proved_unit in "$@"; do
    if ! use_unit "$proved_unit"; then
      fail "$unit_why"
      return 1
    fi
    [ "$unit_load" != not-found ] || continue
    is_guarded || {
      fail "systemd does not use $drop_in_path for $proved_unit.service: look at systemctl cat $proved_unit for a drop-in that takes ExecCondition away"
      return 1
    }
  done
}

# step_install_guards: the scripts first, since a condition whose script is missing starts nothing.
step_install_guards() {
  put "$role_directory/node-entrypoint.sh" 0755 "$guard_entrypoint" &&
    put "$role_directory/fleet-role-is.sh" 0755 "$guard_condition" || return 1
  drop_in_path k3s
  make_directory "${drop_in_path%/*}" && put "$drop_in_path" 0644 "$drop_in_k3s" || return 1
  drop_in_path k3s-agent
  make_directory "${drop_in_path%/*}" && put "$drop_in_path" 0644 "$drop_in_agent" || return 1
  # Nothing to reload where systemd has them as they are.
  proved_guarded k3s k3s-agent || { reload && proved_guarded k3s k3s-agent; }
}

# holdable VALUE: whether it can stand between double quotes, in an environment file and in YAML alike.
holdable() {
  case $1 in
    *[\"\\]* | *[[:cntrl:]]*) fail 'the step has a value that an environment file could not hold as it is' ;;
  esac
}

# put_variable NAME VALUE: that line of the environment file, and every other as it was; without a value the line goes.
put_variable() {
  holdable "$2" || return 1
  variable_text=
  if [ -f "$environment_path" ]; then
    variable_text=$(sed "/^[[:space:]]*$1=/d;s/\\\\/\\\\\\\\/g" "$environment_path") || {
      fail "cannot read $environment_path"
      return 1
    }
    [ -z "$variable_text" ] || variable_text=$variable_text$newline
  fi
  [ -z "$2" ] || variable_text="$variable_text$1=\"$2\"$newline"
  [ -n "$variable_text" ] || [ -e "$environment_path" ] || return 0
  put "$environment_path" 0600 "=$variable_text"
}

# runtime_join_url =URL: k3s gets the URL of the file join-url through its environment, so it is there first.
runtime_join_url() {
  decode "$1"
  put_variable K3S_URL "$decoded"
}

# put_sans NAMES: k3s has no variable for TLS SANs. They are added to what its configuration has, by a file of our own;
# an agent passes over what is a server's.
put_sans() {
  holdable "$1" || return 1
  if [ -z "$1" ]; then
    drop "$sans_path"
    return
  fi
  sans_text="# Written by fleet-role: K3S_TLS_SAN_LIST in $environment_path.${newline}tls-san+:$newline"
  set -f
  for sans_name in $1; do sans_text="$sans_text  - \"$sans_name\"$newline"; done
  set +f
  make_directory "${sans_path%/*}" && put "$sans_path" 0644 "=$sans_text"
}

# native_environment =NAME=VALUE. Both units read K3S_URL.
native_environment() {
  decode "$1"
  environment_name=${decoded%%=*}
  environment_value=${decoded#*=}
  case $decoded in
    K3S_JOIN_SERVER_URL=* | K3S_URL=*) put_variable K3S_URL "$environment_value" ;;
    K3S_TLS_SAN_LIST=*) put_sans "$environment_value" && put_variable K3S_TLS_SAN_LIST "$environment_value" ;;
    *) fail 'the step names no variable that a native host has' ;;
  esac
}

# use_present NAME: use_unit for a unit that has to be there.
use_present() {
  if ! use_unit "$1"; then
    fail "$unit_why"
    return 1
  fi
  case $unit_load in
    loaded) return 0 ;;
    masked) fail "$1.service is masked: run systemctl unmask $1" ;;
    *)
      present_word=agent
      [ "$1" != k3s ] || present_word=server
      fail "there is no $1.service: install it on that host with: curl -sfL https://get.k3s.io | INSTALL_K3S_SKIP_ENABLE=true sh -s - $present_word"
      ;;
  esac
}

# set_enabled NAME enable|disable: and looks whether it is so; a unit without [Install] cannot be.
set_enabled() {
  if ! run_systemctl "$docker_seconds" "$2" "$1.service"; then
    fail "systemctl $2 $1: $(words "$systemctl_said")"
    return 1
  fi
  use_present "$1" || return 1
  if is_enabled; then set_is=enable; else set_is=disable; fi
  [ "$set_is" = "$2" ] || fail "systemctl $2 $1 left the unit ${unit_policy:-as it was}: look at its [Install] section"
}

# alone NAME: whether the unit of the other role is down: both have the same ports and data (fact 9.9).
alone() {
  alone_other=k3s
  [ "$1" != k3s ] || alone_other=k3s-agent
  if ! use_unit "$alone_other"; then
    fail "$unit_why"
    return 1
  fi
  case $unit_active in
    inactive | failed | '') return 0 ;;
  esac
  fail "$alone_other.service still runs, and both have the same ports and data: systemctl disable --now $alone_other"
}

# start_unit NAME: enabled, and on its way. It is not waited for: a server that cannot join never says that it is up
# (fact 9.8). A start that a guard skips is no failure to systemd (fact 9.2), and is one here.
start_unit() {
  alone "$1" && use_present "$1" || return 1
  if [ "$1" = k3s ]; then
    # The guard takes a missing one for a disk that is not mounted.
    make_directory "$server_path" 0700 || return 1
  fi
  set_enabled "$1" enable || return 1
  if ! run_systemctl "$docker_seconds" start --no-block "$1.service"; then
    fail "systemctl start $1: $(words "$systemctl_said")"
    return 1
  fi
  start_tries=0
  while use_present "$1"; do
    case $unit_active:$unit_sub in
      activating:condition | activating:start-pre) ;;
      active:* | activating:*) return 0 ;;
      *:*)
        if [ "$unit_job" = 0 ]; then
          if [ "$unit_result" = exec-condition ]; then
            fail "the guard did not let $1.service start: journalctl -u $1 says why"
          else
            fail "$1.service is $unit_active (${unit_result:-no result}): look at journalctl -u $1"
          fi
          return 1
        fi
        ;;
    esac
    if [ "$start_tries" -ge 30 ]; then
      fail "$1.service was not begun within 30 seconds: look at systemctl list-jobs"
      return 1
    fi
    start_tries=$((start_tries + 1))
    sleep 1
  done
  return 1
}

# stop_unit NAME: disabled, since the next boot would start it (fact 9.9), and stopped. One that is not there is both.
stop_unit() {
  if ! use_unit "$1"; then
    fail "$unit_why"
    return 1
  fi
  [ "$unit_load" != not-found ] || return 0
  ! is_enabled || set_enabled "$1" disable || return 1
  case $unit_active in inactive | failed) [ "$unit_job" != 0 ] || return 0 ;; esac
  run_systemctl "$stop_seconds" stop "$1.service" && return 0
  if was_ended "$systemctl_code"; then
    fail "$1.service did not stop within $stop_seconds seconds; systemd goes on stopping it: run this again"
  else
    fail "systemctl stop $1: $(words "$systemctl_said")"
  fi
}

# set_policy NAME =POLICY: `no` disables the unit, and keeps what it was in the role directory; another one gives it back.
set_policy() {
  decode "$2"
  policy=$decoded
  use_present "$1" || return 1
  policy_path=$role_directory/restart-policy
  if [ "$policy" = no ]; then
    if [ ! -e "$policy_path" ] && [ ! -L "$policy_path" ]; then
      put "$policy_path" 0644 "=${unit_policy:-disabled}$newline" || return 1
    fi
    set_enabled "$1" disable
    return
  fi
  case $policy in
    disabled) set_enabled "$1" disable ;;
    *) set_enabled "$1" enable ;;
  esac && drop "$policy_path"
}

# set_datastore_aside =NAMES: `db`, for another identity `tls` and `cred` too: each is renamed, nothing is deleted.
set_datastore_aside() {
  decode "$1"
  aside_names=$decoded
  if ! use_unit k3s; then
    fail "$unit_why"
    return 1
  fi
  case $unit_active:$unit_job in
    inactive:0 | failed:0) ;;
    *)
      fail "k3s.service is $unit_active, and its datastore is moved only while it is stopped"
      return 1
      ;;
  esac
  look_file_system
  if [ "$one_file_system" != yes ]; then
    fail "$server_path/db could not be renamed: it is a mount or a link of its own; mount the data directory as a whole"
    return 1
  fi
  for aside_name in $aside_names; do
    case $aside_name in
      db | tls | cred) aside "$server_path/$aside_name" || return 1 ;;
      *)
        fail "$aside_name is nothing that is set aside"
        return 1
        ;;
    esac
  done
}

# aside PATH: it is called PATH.demoted; an older one of that name gets the next free number first.
aside() {
  [ -e "$1" ] || [ -L "$1" ] || return 0
  if [ -e "$1.demoted" ] || [ -L "$1.demoted" ]; then
    aside_number=1
    while [ -e "$1.demoted.$aside_number" ] || [ -L "$1.demoted.$aside_number" ]; do
      aside_number=$((aside_number + 1))
    done
    rename "$1.demoted" "$1.demoted.$aside_number" || return 1
  fi
  rename "$1" "$1.demoted"
}

rename() {
  rename_said=$(mv "$1" "$2" 2>&1) && flush "${1%/*}" && return 0
  fail "cannot rename $1 to $2: $(words "$rename_said")"
}

# runtime_step ACTION SERVICE =VALUE
runtime_step() {
  case $2 in
    k3s | k3s-agent | -) ;;
    *)
      fail "there is no service $2"
      return 1
      ;;
  esac
  case $1 in
    write-environment) native_environment "$3" ;;
    start-service) start_unit "$2" ;;
    stop-service) stop_unit "$2" ;;
    set-restart-policy) set_policy "$2" "$3" ;;
    recreate-service) use_present "$2" && reload && proved_guarded "$2" ;;
    set-datastore-aside) set_datastore_aside "$3" ;;
    *) fail 'this version of fleet-role does not know that step on a native host' ;;
  esac
}
