# shellcheck shell=sh disable=SC2154,SC2034
# A host whose k3s runs in the services `k3s` and `k3s-agent` of a Compose project.

runtime_paths() {
  role_directory=$directory/fleet-role.d
  override_name=docker-compose.fleet-role.yml
  override_path=$directory/$override_name
  lock_path=$directory/.fleet-role.lock
}

# first_of NAME...: the first of these files that the project directory has, empty when it has none.
first_of() {
  for first_name in "$@"; do
    if [ -f "$directory/$first_name" ]; then
      printf '%s' "$first_name"
      return 0
    fi
  done
}

# The order in which Compose itself looks.
default_file() { first_of compose.yaml compose.yml docker-compose.yml docker-compose.yaml; }
default_override() {
  first_of compose.override.yml compose.override.yaml docker-compose.override.yml docker-compose.override.yaml
}

# split_list LIST SEPARATOR: its entries, one a line.
split_list() {
  split_rest=$1
  while :; do
    case $split_rest in
      *"$2"*)
        printf '%s\n' "${split_rest%%"$2"*}"
        split_rest=${split_rest#*"$2"}
        ;;
      *)
        printf '%s\n' "$split_rest"
        return 0
        ;;
    esac
  done
}

# absolute_files: reads file names, one a line, and prints them as absolute paths, each once and without the override.
absolute_files() {
  absolute_seen=$newline
  while IFS= read -r absolute_line; do
    [ -n "$absolute_line" ] || continue
    absolute "$absolute_line" "$directory"
    [ "$absolute" != "$override_path" ] || continue
    case $absolute_seen in *"$newline$absolute$newline"*) continue ;; esac
    absolute_seen=$absolute_seen$absolute$newline
    printf '%s\n' "$absolute"
  done
}

# project_files: the Compose files of the project by `.env` or by Compose's own names, then the further ones of the
# inventory. Needs env_look.
project_files() {
  {
    if [ -n "$env_list" ]; then
      split_list "$env_list" "$env_separator"
    else
      default_file
      printf '\n'
      default_override
      printf '\n'
    fi
    printf '%s' "$more_files"
  } | absolute_files
}

# all_there FILES: whether there is a file at all, and each is there; `missing` names the first that is not.
all_there() {
  missing=
  [ -n "$1" ] || return 1
  while IFS= read -r there_file; do
    [ -f "$there_file" ] || {
      missing=$there_file
      return 1
    }
  done <<FILES
$1
FILES
}

# run_docker SECONDS ARGUMENT...: docker with the host's context; what it prints, errors too, in `docker_said`.
run_docker() {
  run_seconds=$1
  shift
  [ -z "$context" ] || set -- --context "$context" "$@"
  docker_code=0
  docker_said=$(bounded "$run_seconds" docker "$@" 2>&1) || docker_code=$?
  if was_ended "$docker_code"; then docker_said="docker did not answer within $run_seconds seconds"; fi
  return "$docker_code"
}

# run_compose SECONDS ARGUMENT...: docker compose for this project.
run_compose() {
  compose_seconds=$1
  shift
  if ! has docker; then
    fail 'there is no docker on this host'
    return 1
  fi
  env_look || return 1
  compose_list=$(files_in_use) || {
    fail "$compose_list"
    return 1
  }
  if ! all_there "$compose_list"; then
    fail "${missing:-a Compose file} is not in $directory"
    return 1
  fi
  # Last, as in COMPOSE_FILE, where a plain `docker compose` would find it.
  if [ "$env_listed" = yes ] && [ -f "$override_path" ]; then compose_list=$compose_list$newline$override_path; fi
  # The files stand before the command, so the arguments are turned round: first the files, then what was given.
  compose_given=$#
  set -- "$@" compose --project-name "$project" --project-directory "$directory"
  while IFS= read -r compose_file; do
    set -- "$@" -f "$compose_file"
  done <<FILES
$compose_list
FILES
  while [ "$compose_given" -gt 0 ]; do
    compose_word=$1
    shift
    set -- "$@" "$compose_word"
    compose_given=$((compose_given - 1))
  done
  run_docker "$compose_seconds" "$@" && return 0
  fail "docker compose: $(words "$docker_said")"
}

# Only what is asked for leaves the host: an environment holds tokens. The first line of a container begins with
# `fleet-role`, then the process id, then JSON. Those that follow, `fleet-role-…`, are for mounts.sh and stay here, texts
# in them as Go quotes them. docker knows `.Id` only as its JSON has it, where a key may be missing: hence `index`, which
# is nothing then. Anything else is what docker has to say.
# shellcheck disable=SC2016 # the template's own variable
inspect_format='fleet-role {{.State.Pid}} {"id":{{json .Id}},"name":{{json .Name}},"status":{{json .State.Status}},'\
'"exitCode":{{json .State.ExitCode}},"startedAt":{{json .State.StartedAt}},"restartCount":{{json .RestartCount}},'\
'"restartPolicy":{{json .HostConfig.RestartPolicy.Name}},"mounts":{{json .Mounts}},'\
'"configFiles":{{with .Config.Labels}}{{json (index . "com.docker.compose.project.config_files")}}{{else}}null{{end}},'\
'"environment":[{{range .Config.Env}}{{$name := index (split . "=") 0}}{{if or (eq $name "K3S_JOIN_SERVER_URL") '\
'(eq $name "K3S_URL")}}{{json .}},{{end}}{{end}}null]}'\
'{{"\n"}}fleet-role-image {{.Image}}'\
'{{"\n"}}fleet-role-file {{printf "%q" .ResolvConfPath}}'\
'{{range .Mounts}}{{"\n"}}fleet-role-mount {{.Type}} {{with index . "Driver"}}{{.}}{{else}}-{{end}} '\
'{{printf "%q" .Destination}} {{with index . "Source"}}{{printf "%q" .}}{{else}}""{{end}}{{end}}'\
'{{range $path, $options := index .HostConfig "Tmpfs"}}{{"\n"}}fleet-role-mount tmpfs - {{printf "%q" $path}} ""{{end}}'\
'{{with index . "GraphDriver"}}{{with index . "Data"}}{{$lower := index . "LowerDir"}}{{with index . "UpperDir"}}'\
'{{"\n"}}fleet-role-layers {{printf "%q" (printf "%s:%s" . $lower)}}{{end}}{{end}}{{end}}'\
'{{"\n"}}fleet-role-word {{printf "%q" .Path}}{{range .Args}}{{"\n"}}fleet-role-word {{printf "%q" .}}{{end}}'\
'{{range .Config.Env}}{{$name := index (split . "=") 0}}'\
'{{if and (eq $name "K3S_TOKEN") (ne (join (split . " ") "") "K3S_TOKEN=")}}{{"\n"}}fleet-role-token{{end}}'\
'{{if and (eq $name "K3S_TOKEN_FILE") (ne . "K3S_TOKEN_FILE=")}}{{"\n"}}fleet-role-token-file {{printf "%q" .}}{{end}}{{end}}'\
'{{range .Config.Env}}{{if eq (index (split . "=") 0) "K3S_NODE_NAME"}}{{"\n"}}fleet-role-node-name {{printf "%q" .}}{{end}}{{end}}'\
'{{"\n"}}fleet-role-host-name {{printf "%q" .Config.Hostname}}'\
'{{"\n"}}fleet-role-policy {{.HostConfig.RestartPolicy.Name}}:{{.HostConfig.RestartPolicy.MaximumRetryCount}}'\
'{{with .Config.Labels}}{{with index . "fleet-role.look"}}{{"\n"}}fleet-role-looker {{.}}{{end}}{{end}}'

# inspect: one call for both containers, and for the one of a look that was killed. A name that no container has is no
# error of docker's, but makes it exit 1.
inspect() {
  look_name=fleet-role-look-$container_k3s
  run_docker "$docker_seconds" inspect --type container --format "$inspect_format" "$container_k3s" "$container_agent" "$look_name"
  inspect_code=$docker_code
  look_left=
  case $docker_said in *"$look_name"*) ;; *) return "$inspect_code" ;; esac
  look_left=$(container_lines "$look_name")
  docker_said=$(printf '%s\n' "$docker_said" | without_look)
  return "$inspect_code"
}

# without_look: what docker said of the two containers alone.
without_look() {
  without_on=yes
  while IFS= read -r without_line; do
    case $without_line in
      'fleet-role '*'","name":"/'"$look_name"'",'*) without_on=no ;;
      fleet-role-*) ;;
      *[Nn]"o such container: $look_name" | *[Nn]"o such object: $look_name") continue ;;
      *) without_on=yes ;;
    esac
    [ "$without_on" = no ] || printf '%s\n' "$without_line"
  done
}

# holds_k3s PID ID: yes, no, gone, or unknown: whether a k3s process runs below the container's first process. That process is
# believed to be the container's only when its control group or its parent (the shim) names the container: with a Docker
# Engine on another machine or in a virtual one, the number would be some other process here.
holds_k3s() {
  holds_id=${2%%\"*}
  if [ "$1" = 0 ] || [ ! -d /proc/self ]; then
    printf unknown
    return 0
  elif [ ! -d "/proc/$1" ]; then
    printf gone
    return 0
  fi
  IFS= read -r holds_line 2>/dev/null <"/proc/$1/stat" || holds_line=
  holds_line=${holds_line##*) ? }
  holds_parent=${holds_line%% *}
  if ! grep -qF "$holds_id" "/proc/$1/cgroup" 2>/dev/null &&
    ! tr '\000' ' ' <"/proc/$holds_parent/cmdline" 2>/dev/null | grep -qF "$holds_id"; then
    printf unknown
    return 0
  fi
  cat /proc/[0-9]*/stat 2>/dev/null | FR_ROOT=$1 awk '
    {
      open = index($0, "(")
      close_at = 0
      for (i = length($0); i > open; i--) if (substr($0, i, 1) == ")") { close_at = i; break }
      split(substr($0, close_at + 2), field, " ")
      pid = substr($0, 1, open - 2)
      parent[pid] = field[2]
      # The names that k3s gives its processes; an entrypoint may be called k3s-… too.
      name = substr($0, open + 1, close_at - open - 1)
      if (name ~ /^k3s(-server|-agent)?( |$)/ && field[1] != "Z") k3s[pid] = 1
    }
    END {
      for (pid in k3s) {
        steps = 0
        for (at = pid; at in parent && at != ENVIRON["FR_ROOT"] && steps < 1000; at = parent[at]) steps++
        if (at == ENVIRON["FR_ROOT"]) { print "yes"; exit }
      }
      print "no"
    }'
}

# ask_containers: one question to docker, and a second one when a container's process ended in between (a service that is
# started again and again lives for a moment only). Sets services_lines.
ask_containers() {
  inspect
  services_lines=$(say_services)
  case $services_lines in
    *'container gone '*)
      inspect
      services_lines=$(say_services)
      ;;
  esac
}

look_services() {
  if ! has docker; then
    say services 'there is no docker on this host'
    return 0
  fi
  ask_containers
  printf '%s\n' "$services_lines"
  remove_left_look
  look_node
}

say_services() {
  say inspect "$inspect_code"
  while IFS= read -r inspect_line; do
    case $inspect_line in
      'fleet-role '*' {"id":"'*)
        inspect_line=${inspect_line#fleet-role }
        inspect_json=${inspect_line#* }
        say container "$(holds_k3s "${inspect_line%% *}" "${inspect_json#'{"id":"'}") $inspect_json"
        ;;
      fleet-role-*) ;;
      ?*) say docker-said "$inspect_line" ;;
    esac
  done <<INSPECT
$docker_said
INSPECT
}

runtime_look() {
  if env_look; then
    say env-listed "$env_listed"
    say env-k3s "$env_k3s"
    say env-k3s-agent "$env_agent"
    say env-tls-sans "$env_tls_sans"
  else
    say blocked "$why"
    return 0
  fi
  say provisioned "$(any_there "$(project_files)")"
  if [ ! -e "$override_path" ] && [ ! -L "$override_path" ]; then
    say override absent
  elif same_text "$override_path" "$override"; then
    say override ours
  elif same_text "$override_path" "$override_entrypoint"; then
    say override ours-entrypoint
  else
    say override differs
  fi
  look_services
}

# any_there FILES: yes when one of them is there.
any_there() {
  while IFS= read -r any_file; do
    if [ -n "$any_file" ] && [ -f "$any_file" ]; then
      printf yes
      return 0
    fi
  done <<FILES
$1
FILES
  printf no
}

# labelled_files: the Compose files that the running container (else any) was created with. Fails, with words instead, where
# one of them is gone: other files could put the data elsewhere.
labelled_files() {
  has docker || return 0
  inspect || [ "$inspect_code" = 1 ] || return 0
  labelled=$(printf '%s\n' "$docker_said" | sed -n 's/^fleet-role .*"status":"running".*"configFiles":"\([^"\\]*\)".*/\1/p' | sed -n 1p)
  [ -n "$labelled" ] ||
    labelled=$(printf '%s\n' "$docker_said" | sed -n 's/^fleet-role .*"configFiles":"\([^"\\]*\)".*/\1/p' | sed -n 1p)
  labelled=$(split_list "$labelled" , | absolute_files)
  if [ -z "$labelled" ] || all_there "$labelled"; then
    printf '%s' "$labelled"
    return 0
  fi
  printf '%s' "$missing, by which the container was created, is gone: bring it back, or name the files of the project in COMPOSE_FILE in $directory/.env"
  return 1
}

# files_in_use: the Compose files by `.env`, else those that the container was created with and the further ones of the
# inventory, else those by Compose's own names. Needs env_look; prints words and fails where labelled_files does.
files_in_use() {
  in_use=
  if [ -z "$env_list" ]; then
    in_use=$(labelled_files) || {
      printf '%s' "$in_use"
      return 1
    }
  fi
  if [ -n "$in_use" ]; then printf '%s\n%s' "$in_use" "$more_files" | absolute_files; else project_files; fi
}

# list_override: names the override in COMPOSE_FILE.
list_override() {
  if [ ! -f "$override_path" ]; then
    fail "$override_path is not there, and Compose fails on a list that names it"
    return 1
  fi
  env_look || return 1
  [ "$env_listed" = no ] || return 0
  list_files=
  if [ -z "$env_list" ]; then
    list_files=$(files_in_use) || {
      fail "$list_files"
      return 1
    }
    if ! all_there "$list_files"; then
      fail "${missing:-a Compose file} is not in $directory, so there is no list that the override could be added to"
      return 1
    fi
  fi
  list_value=
  while IFS= read -r list_file; do
    [ -n "$list_file" ] || continue
    list_name=$list_file
    case $list_file in "$directory"/*) list_name=${list_file#"$directory"/} ;; esac
    case $list_name in
      *"$env_separator"*)
        fail "$list_file has the separator $env_separator in its name and cannot stand in COMPOSE_FILE"
        return 1
        ;;
    esac
    list_value=$list_value$list_name$env_separator
  done <<FILES
$list_files
FILES
  env_change list COMPOSE_FILE "$list_value$override_name"
}

# write_environment =VALUE: `COMPOSE_FILE` lists the override, `NAME=TEXT` sets that variable. A text with a backslash or a
# control character is refused: what Compose makes of it depends on what stands around it.
write_environment() {
  decode "$1"
  environment_name=${decoded%%=*}
  case $decoded in
    COMPOSE_FILE) list_override ;;
    *\\* | *[[:cntrl:]]*) fail 'the step has a value that .env could not hold as it is' ;;
    [A-Z]*=*)
      case $environment_name in
        *[!A-Z0-9_]*) fail 'the step names no variable' ;;
        *) env_change set "$environment_name" "${decoded#*=}" ;;
      esac
      ;;
    *) fail 'the step names no variable' ;;
  esac
}

# The list first: Compose fails on one that names a file which is gone.
remove_override() {
  env_file
  remove_made=$(env_was_made)
  env_change unlist '' '' && env_remove_made "$remove_made" && drop "$override_path"
}

# runtime_step ACTION SERVICE =VALUE
runtime_step() {
  case $1 in
    # A value asks for the form that replaces the entrypoint as well.
    add-override) if [ "$3" = = ]; then put "$override_path" 0644 "$override"; else put "$override_path" 0644 "$override_entrypoint"; fi ;;
    remove-override) remove_override ;;
    write-environment) write_environment "$3" ;;
    stop-service) step_stop "$2" ;;
    start-service) step_start "$2" ;;
    recreate-service) step_recreate "$2" ;;
    set-restart-policy) step_restart_policy "$2" "$3" ;;
    set-datastore-aside) step_aside "$3" ;;
    *) fail 'this version of fleet-role does not know that step' ;;
  esac
}
