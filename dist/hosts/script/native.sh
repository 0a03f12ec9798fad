# shellcheck shell=sh disable=SC2154,SC2034
# A host whose k3s runs by the systemd units k3s (server) and k3s-agent: its files, and what it is like.

runtime_paths() {
  role_directory=/etc/github-runner
  directory=$role_directory
  lock_path=$role_directory/.fleet-role.lock
  environment_path=$role_directory/k3s.env
  config_path=/etc/rancher/k3s
  sans_path=$config_path/config.yaml.d/fleet-role.yaml
  data_dir=${data_dir%/}
  server_path=$data_dir/server
}

# What inside.sh asks for: here every path lies at itself.
place() { placed=$1; }
place_folder() { folders=$1; }
next_folder() {
  folder=$folders
  folders=
  [ -n "$folder" ]
}
still_there() { :; }

# say_environment: what the environment file gives, by the keys that Compose's .env has, too.
say_environment() {
  native_url='' native_sans=''
  ! value_of_file K3S_URL "$environment_path" || native_url=$file_value
  ! value_of_file K3S_TLS_SAN_LIST "$environment_path" || native_sans=$file_value
  say env-k3s "$native_url"
  say env-k3s-agent "$native_url"
  say env-tls-sans "$native_sans"
}

# say_drop_ins: absent, ours or differs, for the two of them together.
say_drop_ins() {
  drop_ins=
  for drop_in_unit in k3s k3s-agent; do
    drop_in_path "$drop_in_unit"
    drop_in=$drop_in_k3s
    [ "$drop_in_unit" = k3s ] || drop_in=$drop_in_agent
    if same_text "$drop_in_path" "$drop_in"; then
      drop_ins="$drop_ins ours"
    elif [ ! -e "$drop_in_path" ] && [ ! -L "$drop_in_path" ]; then
      drop_ins="$drop_ins absent"
    else
      drop_ins="$drop_ins differs"
    fi
  done
  case $drop_ins in
    ' ours ours') drop_ins=ours ;;
    ' absent absent') drop_ins=absent ;;
    *) drop_ins=differs ;;
  esac
  say override "$drop_ins"
}

# look_unit NAME ROLE: one line for the unit; adds to why the host cannot be steered.
look_unit() {
  use_unit "$1" || return 1
  unit_is=$(unit_state "$2")
  unit_mounted=no
  if [ "$unit_is" = absent ]; then
    unit_policy=''
  else
    provisioned=yes
    unit_hidden=
    value_of K3S_URL
    unit_url=$unit_variable
    if is_guarded; then unit_mounted=yes; else all_guarded=no; fi
    why_not=$why_not$(unsteerable)
    # The name of the one that runs, else of the one that is there.
    case $unit_is:$unit_name in
      running:* | restarting:* | *:) unit_name=$(node_named) ;;
    esac
    say unit-url "$1 $unit_url"
  fi
  say unit "$1 $unit_is $unit_restarts $unit_mounted ${unit_policy:-none}"
}

runtime_look() {
  provisioned=no all_guarded=yes unit_name='' why_not='' token=unknown
  say_environment
  say_drop_ins
  if look_unit k3s-agent agent && { [ "$unit_is" = absent ] || look_unit_token; } && look_unit k3s server; then
    # A host that has no k3s.service yet joins with the token that it joined with as an agent.
    if [ "$unit_is" != absent ]; then look_unit_token; fi
  else
    say services "$unit_why"
    # What is there is not known, which is never nothing.
    provisioned=yes
    token=unknown token_why=$unit_why all_guarded=no
  fi
  say provisioned "$provisioned"
  # The guards count as installed only where the units meet them.
  native_guards=
  if [ "$drop_ins" = ours ] && [ "$all_guarded" = yes ]; then
    native_guards=$(guard_version "$role_directory/fleet-role-is.sh")
  fi
  say guards "$native_guards"
  say node-name "$unit_name"
  say unsteerable "${why_not%; }"
  look_data
  look_file_system
  say datastore "$datastore"
  say tombstone "$tombstone"
  say set-aside "$set_aside"
  say one-file-system "$one_file_system"
  say data-why "$server_path may not be looked into by $(id -un): set ansible_become: true"
  say token "$token"
  say token-why "${token_why:-the files that could hold one may not be read by $(id -un): set ansible_become: true}"
  # /etc/rancher/node is one directory for both units.
  say password-shared yes
}
