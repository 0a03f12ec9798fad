# shellcheck shell=sh disable=SC2154,SC2034
# What systemd and the files around a unit say of k3s.service and k3s-agent.service. Command lines, environments and
# configurations hold tokens: only what is asked for leaves the host.

unit_properties=LoadState,ActiveState,SubState,Result,UnitFileState,NRestarts,MainPID,Job,NeedDaemonReload
unit_properties=$unit_properties,FragmentPath,DropInPaths,ExecStart,ExecCondition,Environment,EnvironmentFiles

# run_systemctl SECONDS ARGUMENT...: what it prints, errors too, in `systemctl_said`.
run_systemctl() {
  systemctl_seconds=$1
  shift
  systemctl_code=0
  systemctl_said=$(bounded "$systemctl_seconds" systemctl "$@" 2>&1) || systemctl_code=$?
  if was_ended "$systemctl_code"; then
    systemctl_said="systemctl $1 did not end within $systemctl_seconds seconds"
  fi
  return "$systemctl_code"
}

# use_unit NAME: asks systemd about NAME.service; fails, with `unit_why`, where the answer tells nothing.
use_unit() {
  unit=$1 unit_load='' unit_active='' unit_sub='' unit_result='' unit_policy='' unit_restarts=0 unit_pid=0 unit_job=0
  unit_stale='' unit_fragment='' unit_drop_ins='' unit_start='' unit_condition='' unit_environment='' unit_files=''
  if ! has systemctl; then
    unit_why='there is no systemctl on this host: set github_runner_cluster_runtime: compose, or install k3s as a service'
    return 1
  fi
  if ! run_systemctl "$docker_seconds" show --no-pager "--property=$unit_properties" "$1.service"; then
    unit_why="systemctl: $(words "$systemctl_said")"
    return 1
  fi
  while IFS= read -r unit_line; do
    unit_value=${unit_line#*=}
    case $unit_line in
      LoadState=*) unit_load=$unit_value ;;
      ActiveState=*) unit_active=$unit_value ;;
      SubState=*) unit_sub=$unit_value ;;
      Result=*) unit_result=$unit_value ;;
      UnitFileState=*) unit_policy=$unit_value ;;
      NRestarts=*) unit_restarts=$unit_value ;;
      MainPID=*) unit_pid=$unit_value ;;
      Job=*) unit_job=${unit_value:-0} ;;
      NeedDaemonReload=*) unit_stale=$unit_value ;;
      FragmentPath=*) unit_fragment=$unit_value ;;
      DropInPaths=*) unit_drop_ins=$unit_value ;;
      ExecStart=*)
        unit_command=${unit_value#*"argv[]="}
        unit_start="$unit_start ${unit_command%%" ; ignore_errors="*}"
        ;;
      ExecCondition=*) unit_condition=$unit_condition$unit_value$newline ;;
      Environment=*) unit_environment=$unit_value ;;
      EnvironmentFiles=*) unit_files=$unit_files${unit_value%" (ignore_errors="*}$newline ;;
    esac
  done <<SHOW
$systemctl_said
SHOW
  case $unit_load in
    loaded | not-found | masked) ;;
    *)
      unit_why="systemd cannot load $1.service (${unit_load:-it did not say why}): look at systemctl status $1"
      return 1
      ;;
  esac
  case $unit_restarts in '' | *[!0-9]*) unit_restarts=0 ;; esac
}

drop_in_path() { drop_in_path=/etc/systemd/system/$1.service.d/fleet-role.conf; }

# is_guarded: whether the next start of the unit in use meets our guard: its drop-in is loaded as it lies on the disk, and
# no other one takes the condition out again.
is_guarded() {
  drop_in_path "$unit"
  [ "$unit_stale" = no ] || return 1
  case " $unit_drop_ins " in *" $drop_in_path "*) ;; *) return 1 ;; esac
  case $unit_condition in *" $role_directory/fleet-role-is.sh "*) return 0 ;; esac
  return 1
}

is_enabled() { case $unit_policy in enabled | enabled-runtime) return 0 ;; *) return 1 ;; esac; }

# names_another ROLE: whether there is a role file, and its word is not that one.
names_another() {
  [ -e "$role_directory/role" ] || [ -L "$role_directory/role" ] || return 1
  [ "$(tr -d '[:space:]' <"$role_directory/role" 2>/dev/null)" != "$1" ]
}

# unit_state ROLE: prints the state of the unit in use. A skipped start is no failure and is not tried again (facts 9.1,
# 9.2); a disabled unit that was skipped before it was disabled does not start by itself any more: it is stopped.
unit_state() {
  [ "$unit_load" != not-found ] || {
    printf absent
    return 0
  }
  case $unit_active in
    active | reloading | refreshing | deactivating) printf running ;;
    activating)
      # A server that cannot join stays here for ever, with k3s running (fact 9.8).
      case $unit_sub:$unit_pid in
        auto-restart* | condition:* | start-pre:* | *:0 | *:) printf restarting ;;
        *) printf running ;;
      esac
      ;;
    inactive | failed)
      if is_enabled && is_guarded && { [ "$unit_result" = exec-condition ] || names_another "$1"; }; then
        printf idle
      else
        printf stopped
      fi
      ;;
    *) printf unknown ;;
  esac
}

# value_of_file NAME FILE: sets file_value to what an environment file of systemd gives that variable last; fails when it
# does not name it.
value_of_file() {
  file_value=$(sed -n "/^[[:space:]]*$1=/p" "$2" 2>/dev/null | sed -n '$p')
  [ -n "$file_value" ] || return 1
  file_value=$(printf '%s\n' "${file_value#*=}" | sed "s/^[[:space:]]*//;s/[[:space:]]*\$//;s/^\"\(.*\)\"\$/\1/;s/^'\(.*\)'\$/\1/")
}

# value_of NAME: sets unit_variable to what the unit in use gives that variable: later files win, and all of them beat
# Environment= (fact 9.6). A file that may not be read makes `unit_hidden` its path.
value_of() {
  unit_variable=
  case " $unit_environment" in
    *[\ \"]"$1="*)
      unit_variable=" $unit_environment"
      unit_variable=${unit_variable##*[\ \"]"$1="}
      unit_variable=${unit_variable%%[\ \"]*}
      ;;
  esac
  while IFS= read -r value_file; do
    [ -n "$value_file" ] || continue
    if [ -r "$value_file" ]; then
      ! value_of_file "$1" "$value_file" || unit_variable=$file_value
    elif [ -e "$value_file" ] || ! reachable "$value_file"; then
      unit_hidden=$value_file
    fi
  done <<FILES
$unit_files
FILES
}

# flag_of LONG [SHORT]: whether the command line of the unit in use has that flag; `flag_value` is its last value.
flag_of() {
  flag_next=no flag_found=no flag_value=
  set -f
  for flag_word in $unit_start; do
    # Newer systemd quotes words as a shell would.
    flag_word=${flag_word#[\"\']}
    flag_word=${flag_word%[\"\']}
    if [ "$flag_next" = yes ]; then
      flag_next=no
      case $flag_word in -*) ;; *) flag_value=$flag_word && continue ;; esac
    fi
    case $flag_word in
      --"$1" | -"$1" | -"${2:-$1}") flag_found=yes flag_next=yes flag_value= ;;
      --"$1"=* | -"$1"=* | -"${2:-$1}"=*) flag_found=yes flag_value=${flag_word#*=} ;;
    esac
  done
  set +f
  [ "$flag_found" = yes ]
}

# configurations: prints the configuration files that k3s reads in the unit in use, in its order: a later one wins.
configurations() {
  value_of K3S_CONFIG_FILE
  config_file=${unit_variable:-$config_path/config.yaml}
  if flag_of config c && [ -n "$flag_value" ]; then config_file=$flag_value; fi
  printf '%s\n' "$config_file"
  for config_file in "$config_file".d/*.yaml; do
    [ ! -e "$config_file" ] || printf '%s\n' "$config_file"
  done
}

# configured KEY: sets config_value, and config_at to `FILE:LINE`, to what the configuration of the unit in use says last.
configured() {
  config_value='' config_at=''
  while IFS= read -r config_each; do
    if [ ! -r "$config_each" ]; then
      if [ -e "$config_each" ] || ! reachable "$config_each"; then unit_hidden=$config_each; fi
      continue
    fi
    # The number of the line and the line, each on a line of its own.
    config_found=$(sed -n "/^[[:space:]]*[\"']\{0,1\}$1[\"']\{0,1\}[[:space:]]*:/{=;p;}" "$config_each")
    [ -n "$config_found" ] || continue
    config_value=$(printf '%s\n' "$config_found" | sed -n "\${s/^[^:]*://;s/[[:space:]]#.*//;s/[[:space:]\"']//g;p;}")
    case $config_value in
      '' | '~' | null) config_value='' ;;
      *) config_at=$config_each:$(printf '%s\n' "$config_found" | sed 'x;1!{$p;};d') ;;
    esac
  done <<CONFIGURATIONS
$(configurations)
CONFIGURATIONS
  [ -n "$config_value" ]
}

# setting LONG VARIABLE [SHORT]: sets `setting` to what k3s takes in the unit in use: its command line beats its
# configuration, and that its environment (fact 2.2).
setting() {
  if flag_of "$1" "${3-}" && [ -n "$flag_value" ]; then
    setting=$flag_value
  elif configured "$1"; then
    setting=$config_value
  else
    value_of "$2"
    setting=$unit_variable
  fi
}

# line_with REGEX: `FILE line N` of the unit in use where the word stands; the line itself may hold a token.
line_with() {
  for line_file in $unit_drop_ins $unit_fragment; do
    line_number=$(sed -n "s/\$/ /;/[[:space:]'\"]$1[[:space:]'\"=]/=" "$line_file" 2>/dev/null | sed -n '$p')
    if [ -n "$line_number" ]; then
      printf '%s line %s' "$line_file" "$line_number"
      return 0
    fi
  done
  printf 'the ExecStart of %s.service' "$unit"
}

# unsteerable: prints why what we write would not decide what the unit in use does, with the way out; nothing when it would.
unsteerable() {
  unit_hidden=
  if flag_of server s; then
    printf '%s has --server, which beats the join URL that fleet-role writes: take it out of the ExecStart there and run systemctl daemon-reload; ' "$(line_with "--*s\(erver\)\{0,1\}")"
  fi
  if flag_of cluster-init && [ "$flag_value" != false ]; then
    printf '%s has --cluster-init, which beats the role that fleet-role writes: take it out of the ExecStart there and run systemctl daemon-reload; ' "$(line_with --cluster-init)"
  fi
  if configured server; then
    printf '%s line %s (server: %s) beats the join URL that fleet-role writes: remove that line; ' "${config_at%:*}" "${config_at##*:}" "$config_value"
  fi
  if configured cluster-init && [ "$config_value" != false ]; then
    printf '%s line %s (cluster-init: %s) beats the role that fleet-role writes: remove that line; ' "${config_at%:*}" "${config_at##*:}" "$config_value"
  fi
  setting data-dir K3S_DATA_DIR d
  setting=${setting%/}
  if [ -n "$setting" ] && [ "$setting" != "$data_dir" ]; then
    printf '%s.service has its data in %s, and the inventory says %s: set github_runner_cluster_data_dir: %s; ' "$unit" "$setting" "$data_dir" "$setting"
  fi
  [ -z "$unit_hidden" ] ||
    printf '%s may not be read by %s, so it is not known what k3s is told there: set ansible_become: true; ' "$unit_hidden" "$(id -un)"
}

# look_unit_token: sets token to yes, no or unknown for the unit in use.
look_unit_token() {
  unit_hidden=
  token=yes
  if flag_of token t && [ -n "$flag_value" ]; then return 0; fi
  if flag_of token-file && [ -n "$flag_value" ] && holds_text "$flag_value"; then return 0; fi
  value_of K3S_TOKEN
  [ -z "$unit_variable" ] || return 0
  if configured token; then return 0; fi
  value_of K3S_TOKEN_FILE
  look_token "$unit_variable"
  if [ "$token" = no ] && [ -n "$unit_hidden" ]; then token=unknown; fi
}

# node_named: prints the name that k3s takes in the unit in use, empty where that cannot be told.
node_named() {
  # It appends a number of its own.
  ! flag_of with-node-id || return 0
  setting node-name K3S_NODE_NAME
  if [ -z "$setting" ]; then IFS= read -r setting </proc/sys/kernel/hostname 2>/dev/null || setting=$(uname -n); fi
  printf '%s' "$setting" | tr '[:upper:]' '[:lower:]'
}
