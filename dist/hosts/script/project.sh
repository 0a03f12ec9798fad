# shellcheck shell=sh disable=SC2154,SC2034,SC2016
# What `k3s` would start from, whether it has a token, and whose entrypoint the services have. Looked up on the host where
# docker said that it lies; what this user may not read there is read in a container of the same image and volumes.

# The mounts that the Compose files could give a service at or above the datastore. The files are not read as YAML but as
# words, and all services count: what is found may be too much, and whatever is not plain is `cannot`.
mounts_program='
function cannot(words) { if (!failed) print "cannot " words; failed = 1; exit }
function is_data(path) { sub(/\/+$/, "", path); return path ~ /^\/var(\/lib(\/rancher(\/k3s(\/server(\/.*)?)?)?)?)?$/ }
function tell(kind, path, source) { sub(/\/+$/, "", path); print kind, path, source }
function flush() {
  if (target ~ /\$/) cannot("a mount whose place is a variable")
  if (is_data(target) && kind != "tmpfs") {
    if (source == "" || source ~ /\$/) cannot("a mount at " target " whose source is not plain")
    else if (kind == "bind") tell("path", target, source)
    else if (kind == "volume") tell("name", target, source)
    else cannot("a mount at " target " without a type")
  }
  source = ""; target = ""; kind = ""
}
function short(text, before,   n, part, i, from) {
  n = split(text, part, ":")
  for (i = 2; i <= n; i++) {
    if (!is_data(part[i])) continue
    from = substr(text, 1, index(text, ":" part[i]) - 1)
    if (!starts(before) || from == "" || from ~ /\$/ || from ~ /^(source|src|target|destination|dst|type)$/) cannot("a mount at " part[i] " whose source is not plain")
    else if (from ~ /^[.~\/]/) tell("path", part[i], from)
    else if (from ~ /^[A-Za-z0-9][A-Za-z0-9_.-]*$/) tell("name", part[i], from)
    else cannot("a mount at " part[i] " whose source is not plain")
    return
  }
  if (text !~ /\$/ || !starts(before) || text ~ /:\/\// || text ~ /^[A-Za-z_][A-Za-z0-9_]*=/ || text ~ /^-./) return
  sub(/:(ro|rw|z|Z|cached|delegated|consistent|nocopy)$/, "", text)
  sub(/^.*:/, "", text)
  if (text ~ /\$/) cannot("an entry that is a variable and may be a mount")
}
function starts(word) { return word == "" || word == "-" || word == "," || word == "{" || word ~ /^[&!]/ }
{
  if (FNR == 1) flush()
  text = $0
  sub(/\r$/, "", text)
  sub(/^[ \t]*#.*/, "", text)
  if (match(text, /[ \t]#.*/)) {
    if (substr(text, RSTART) ~ /:[ \t]*\/var/) cannot("a mount in or behind a comment")
    text = substr(text, 1, RSTART - 1)
  }
  indented = text ~ /^[ \t]/
  gsub(/\$\{[^}]*\}/, "$", text)
  gsub(/["\047]/, "", text)
  gsub(/[[{]/, " { ", text)
  gsub(/[]}]/, " } ", text)
  gsub(/,/, " , ", text)
  count = split(text, word, " ")
  before = ""
  for (i = 1; i <= count; i++) {
    now = word[i]
    value = (i < count && word[i + 1] !~ /^[{},]$/) ? word[i + 1] : ""
    if (now == "-" || now == "{" || now == "}") flush()
    else if (now ~ /^(extends|include|volumes_from|subpath):$/) cannot(now " is used")
    else if (now ~ /^(driver_opts|device):$/) print "options"
    else if (now == "external:") print "external"
    else if (now == "name:" && indented) print "also", value
    else if (now ~ /^(source|src|target|destination|dst|type):$/) {
      # A value of two words would be a path with a space in it.
      if (now != "type:" && i + 2 <= count && word[i + 2] !~ /^[{},]$/ && word[i + 2] !~ /:$/) cannot("a path with a space")
      if (now == "type:") { if (kind != "") flush(); kind = value }
      else if (now ~ /^s/) { if (source != "") flush(); source = value }
      else { if (target != "") flush(); target = value }
    } else short(now, before)
    before = now
  }
}
END { if (!failed) flush(); if (!failed) print "end" }
'

# Not every awk means the same by a bracket. What it makes of this is known; an awk that makes something else of it would
# see no mount where there is one.
mounts_sample='
- {type: bind, "source": ./a, target: /var/lib/rancher/k3s}
x: ["b:/var/lib/rancher/k3s/:ro"] # c
- ${c:-d}:/x
'
mounts_meaning='path /var/lib/rancher/k3s ./a
name /var/lib/rancher/k3s b
end'

# is_missing KIND NAME: whether docker said that there is no such container (volume).
is_missing() {
  while IFS= read -r missing_line; do
    case $missing_line in
      *[Nn]"o such $1: $2" | *[Nn]"o such object: $2" | *"get $2: no such $1") return 0 ;;
    esac
  done <<SAID
$docker_said
SAID
  return 1
}

# local_engine: whether the Docker Engine is this machine's own, where no container shows it: by its usual socket.
local_engine() {
  [ -d /proc/self ] || return 1
  case $context in '' | default) ;; *) return 1 ;; esac
  case ${DOCKER_CONTEXT-} in '' | default) ;; *) return 1 ;; esac
  case ${DOCKER_HOST-} in '' | unix://*) ;; *) return 1 ;; esac
  ! grep -q '"currentContext"' "${DOCKER_CONFIG:-$HOME/.docker}/config.json" 2>/dev/null
}

# cannot_tell WORDS: why nothing is known of the data; always returns 1.
cannot_tell() {
  data_why=$1
  return 1
}

# project_mounts: sets `node_mounts` to the mounts that a container of `k3s` would have for its data, which has none yet.
project_mounts() {
  project_list=$(project_files)
  all_there "$project_list" || cannot_tell "${missing:-a Compose file} is not in $directory" || return 1
  if [ "$(printf '%s' "$mounts_sample" | awk "$mounts_program" 2>&1)" != "$mounts_meaning" ]; then
    cannot_tell 'k3s has no container, and the awk of this host cannot read the Compose files'
    return
  fi
  mounts_found=$(printf '%s\n' "$project_list" | while IFS= read -r mounts_file; do
    awk "$mounts_program" "$mounts_file" 2>/dev/null || echo "cannot $mounts_file cannot be read"
  done)
  case $newline$mounts_found in
    *"${newline}cannot "*)
      mounts_found=${mounts_found#*cannot }
      cannot_tell "k3s has no container, and the Compose files do not say plainly where its data would lie (${mounts_found%%"$newline"*})"
      return
      ;;
  esac
  node_mounts='' mounts_names='' mounts_also='' mounts_flags=
  while read -r mounts_kind mounts_target mounts_source; do
    case $mounts_kind in
      options | external) mounts_flags="$mounts_flags $mounts_kind" ;;
      also) mounts_also="$mounts_also $mounts_target" ;;
      name)
        mounts_names="$mounts_names $mounts_source"
        node_mounts="${node_mounts}name - \"$mounts_target\" \"$mounts_source\"$newline"
        ;;
      path)
        absolute "${mounts_source#./}" "$directory"
        node_mounts="${node_mounts}bind - \"$mounts_target\" \"$absolute\"$newline"
        ;;
    esac
  done <<FOUND
$mounts_found
FOUND
}

# shares_mounts: whether these are mounts that the agent's container has, which then shows what is in them.
shares_mounts() {
  [ -n "$node_mounts" ] || return 1
  while read -r mounts_kind mounts_driver mounts_rest; do
    [ -n "$mounts_kind" ] || continue
    case $mounts_kind in
      bind) case $agent_mounts in *"bind - $mounts_rest$newline"*) continue ;; esac ;;
      name)
        mounts_source=${mounts_rest#*\" \"}
        mounts_source=/${project}_${mounts_source%\"}/_data
        printf '%s' "$agent_mounts" | grep -F "volume local ${mounts_rest%%\" \"*}\" \"" | grep -qF "$mounts_source\"" && continue
        ;;
    esac
    return 1
  done <<MOUNTS
$node_mounts
MOUNTS
}

# name_volumes: asks docker for the volumes that are named, and puts what it knows of them into `node_mounts`.
name_volumes() {
  case $mounts_flags in *options*) cannot_tell 'k3s has no container, and a volume has options of its own' || return 1 ;; esac
  case $mounts_also in *\$* | *[!A-Za-z0-9_.\ -]*) cannot_tell 'k3s has no container, and a volume has a name with a variable' || return 1 ;; esac
  set --
  for volume_name in $mounts_names; do
    set -- "$@" "${project}_$volume_name"
    case $mounts_flags in *external*) set -- "$@" "$volume_name" ;; esac
  done
  # shellcheck disable=SC2086 # they are plain names
  set -- "$@" $mounts_also
  run_docker "$docker_seconds" inspect --type volume \
    --format 'fleet-role-volume {{.Name}} {{.Driver}} {{printf "%q" .Mountpoint}}' "$@"
  volumes_known=
  for volume_name in "$@"; do
    volume_line=$(printf '%s\n' "$docker_said" | grep -F "fleet-role-volume $volume_name " | sed -n 1p)
    if [ -n "$volume_line" ]; then
      volumes_known=$volumes_known${volume_line#fleet-role-volume }$newline
    elif ! is_missing volume "$volume_name"; then
      cannot_tell "docker: $(words "$docker_said")"
      return 1
    fi
  done
  volumes_mounts=
  while read -r mounts_kind mounts_driver mounts_rest; do
    if [ "$mounts_kind" = name ]; then
      mounts_source=${mounts_rest#*\" \"}
      mounts_source=${mounts_source%\"}
      mounts_target=${mounts_rest%%\" \"*}\"
      volume_line=
      for volume_name in "${project}_$mounts_source" "$mounts_source" $mounts_also; do
        volume_found=$(printf '%s' "$volumes_known" | grep -F "$volume_name " | grep "^$volume_name ")
        [ -n "$volume_found" ] || continue
        [ -z "$volume_line" ] || [ "$volume_line" = "$volume_found" ] ||
          cannot_tell 'k3s has no container, and more than one volume may be its own' || return 1
        volume_line=$volume_found
      done
      volume_line=${volume_line#* }
      mounts_kind=new mounts_driver=- mounts_rest="$mounts_target \"\""
      if [ -n "$volume_line" ]; then
        mounts_kind=volume mounts_driver=${volume_line%% *} mounts_rest="$mounts_target ${volume_line#* }"
      fi
    fi
    [ -z "$mounts_kind" ] || volumes_mounts="$volumes_mounts$mounts_kind $mounts_driver $mounts_rest$newline"
  done <<MOUNTS
$node_mounts
MOUNTS
  node_mounts=$volumes_mounts
}

# look_again: a volume without a name belongs to its container. That it holds nothing is believed only when the container
# is still the same one afterwards.
look_again() {
  if [ "$datastore" != none ] || ! mount_for "$server_path/db/etcd/member/wal"; then return 0; fi
  [ "$mount_kind" = volume ] || return 0
  again_name=${mount_source%/_data}
  again_name=${again_name##*/}
  # What docker calls a volume that has no name.
  case $again_name in *[!0-9a-f]*) return 0 ;; esac
  [ "${#again_name}" = 64 ] || return 0
  run_docker "$docker_seconds" inspect --type container --format '{{.Id}}' "$container_k3s"
  again_said=$docker_said
  docker_said=$described
  [ "$again_said" != "$node_id" ] || return 0
  datastore=unknown tombstone=unknown set_aside=unknown data_in=
  cannot_tell 'the container of k3s was another one, or gone, while its data was looked at'
  return 0
}

# look_new_data: sets what look_data sets for a `k3s` that has no container, where all that it could start from can be
# looked into.
look_new_data() {
  datastore=unknown tombstone=unknown set_aside=unknown
  agent_mounts='' agent_here=no
  if [ "$has_agent" = yes ]; then
    use_container "$container_agent"
    agent_mounts=$node_mounts agent_here=$node_here
  fi
  [ "$agent_here" = yes ] || ! local_engine || agent_here=yes
  project_mounts || return 0
  if shares_mounts; then
    use_container "$container_agent"
    data_in=$container_agent
    look_data
    can_rename
    return 0
  fi
  [ -z "$mounts_names" ] || name_volumes || return 0
  node_layers='' node_pid='' node_odd=no node_new=yes node_here=$agent_here
  # Docker's word alone is enough where nothing is to be looked at on this host.
  case $node_mounts in *'bind '* | *'volume '*) ;; *) node_here=yes ;; esac
  node_mounts=$(printf '%s' "$node_mounts" | sort -u)$newline
  mounts_targets=$(printf '%s' "$node_mounts" | sed 's/^[a-z]* [^ ]* \("[^"]*"\).*/\1/')
  if [ "$(printf '%s\n' "$mounts_targets" | sort)" = "$(printf '%s\n' "$mounts_targets" | sort -u)" ]; then
    look_data
    can_rename
  else
    look_each_mount
  fi
  [ "$datastore" != unknown ] || data_why=${data_why:-'k3s has no container, and where its data would lie cannot be looked into'}
}

# look_each_mount: two mounts have one place, for two services. Which is the one of k3s does not matter when all are empty.
look_each_mount() {
  mounts_all=$node_mounts
  while IFS= read -r node_mounts; do
    node_mounts=$node_mounts$newline
    look_data
    if [ "$datastore $tombstone $set_aside" != 'none no no' ]; then
      datastore=unknown tombstone=unknown set_aside=unknown
      cannot_tell 'k3s has no container, and more than one place may be that of its data'
      return 0
    fi
  done <<MOUNTS
${mounts_all%"$newline"}
MOUNTS
  one_file_system=yes
}

# look_service NAME: the entrypoint of the container in use, into `entry`; `entry_asks` is what would have to be asked inside.
look_service() {
  entry_asks=
  guards=
  entry_path
  if [ -n "$entry_path" ]; then
    look_entrypoint "$entry_path"
    [ "$entrypoint" != unknown ] || entry_asks=$entry_path
  fi
  entry="$entrypoint $guards"
  # Two containers of one image see the same file unless one of them mounts another there.
  entry_of="$node_image $(mount_for "$entry_path" && printf '%s' "$mount_target $mount_source")"
}

# lost_source: whether a directory that the container in use mounts is gone from this host; it is left in `lost_source`.
lost_source() {
  [ "$node_here" = yes ] || local_engine || return 1
  while read -r lost_kind lost_driver lost_rest; do
    [ "$lost_kind" = bind ] || continue
    lost_source=${lost_rest#*\" \"}
    lost_source=${lost_source%\"}
    if [ ! -e "$lost_source" ] && reachable "$lost_source"; then return 0; fi
  done <<MOUNTS
$node_mounts
MOUNTS
  return 1
}

# look_left_by OWNER STATUS: whether the look that made that container is over. Where it was made on another machine, or
# before this one was started again, only a container that has ended is taken for left behind.
look_left_by() {
  boot_id
  ! lives "$1" || return 1
  case $1 in *."$boot_id") return 0 ;; esac
  [ "$2" = exited ] || [ "$2" = dead ]
}

# remove_left_look: the container of a look that was killed is gone. By its id: one of that name may be a newer one. Never
# with its volumes: they are the node's.
remove_left_look() {
  [ -n "$look_left" ] || return 0
  left_owner=${look_left#*fleet-role-looker }
  [ "$left_owner" != "$look_left" ] || return 0
  left_id=${look_left#*'{"id":"'}
  left_status=${look_left#*'"status":"'}
  look_left_by "${left_owner%%"$newline"*}" "${left_status%%\"*}" || return 0
  left_described=$docker_said
  run_docker "$docker_seconds" rm -f "${left_id%%\"*}"
  docker_said=$left_described
}

# run_look ARGUMENT...: `docker run` for a look, one at a time. Not with --rm, by which docker would remove a volume
# without a name, too, once its node is gone: whoever made the container removes it afterwards, or else the next look.
run_look() {
  boot_id
  start_of "$$"
  look_tries=0
  while :; do
    run_docker "$docker_seconds" run --name "$look_name" --label "fleet-role.look=$$.$start_of.$boot_id" "$@"
    case $docker_said in
      *'is already in use'*) ;;
      *)
        look_said=$docker_said
        run_docker "$docker_seconds" rm -f "$look_name"
        docker_said=$look_said
        return 0
        ;;
    esac
    [ "$look_tries" -lt "$docker_seconds" ] || return 0
    look_tries=$((look_tries + 1))
    sleep 1
  done
}

# look_inside NAME QUESTIONS K3S_ENTRY AGENT_ENTRY: asks what could not be told from outside, by a container of the same
# image with the same volumes that may change nothing, has no network, and is gone afterwards. It is never pulled.
look_inside() {
  use_container "$1" && [ -n "$node_image" ] || return 0
  # Docker would make it, and looking changes nothing.
  lost_source && inside_why="$lost_source, which $1 mounts, is not there" && return 0
  run_look --volumes-from "$node_id:ro" --pull never --network none --read-only \
    --user 0:0 --entrypoint sh "$node_image" -c "$inside_program$inside_container" sh "$2" "$node_token_file" "$3" "$4" "$docker_seconds"
  case $newline$docker_said in
    *"${newline}fleet-role-end"*) inside_why= ;;
    *) inside_why="docker run: $(words "$docker_said")" ;;
  esac
  while read -r inside_key inside_one inside_two inside_three; do
    case $inside_key in
      fleet-role-data)
        datastore=$inside_one tombstone=$inside_two set_aside=${inside_three%% *}
        [ "$one_file_system" = no ] || one_file_system=${inside_three#* }
        ;;
      # What the container itself wrote is not seen there, so only a folder of its own says that there is none.
      fleet-role-token) if [ "$inside_one" = yes ] || mount_for "$config_path"; then token=$inside_one; fi ;;
      fleet-role-entrypoint)
        if [ "$inside_one" = k3s ]; then entry_k3s="$inside_two $inside_three"; else entry_agent="$inside_two $inside_three"; fi
        ;;
    esac
  done <<INSIDE
$docker_said
INSIDE
}

# look_node: says it all. Needs services_lines and docker_said as `inspect` left it, and env_look.
look_node() {
  has_k3s=no has_agent=no data_in='' data_why='' token_why='' inside_why='' asks='' asks_k3s='' asks_agent=''
  datastore=unknown tombstone=unknown set_aside=unknown one_file_system=unknown
  token=unknown entry_k3s=unknown entry_agent=unknown
  entry_of_k3s='' entry_of_agent=''
  described=$docker_said
  if use_container "$container_agent"; then
    has_agent=yes
    agent_token=$node_token
    look_service
    entry_agent=$entry asks_agent=$entry_asks entry_of_agent=$entry_of
  fi
  if use_container "$container_k3s"; then
    has_k3s=yes
    look_service
    entry_k3s=$entry asks_k3s=$entry_asks entry_of_k3s=$entry_of
    data_in=$container_k3s
    look_data
    can_rename
    if [ "$node_token" = yes ]; then token=yes; else look_token "$node_token_file"; fi
    if [ "$token" = unknown ]; then asks=t; fi
    look_again
  elif ! is_missing container "$container_k3s" || { [ "$has_agent" = no ] && ! is_missing container "$container_agent"; }; then
    data_why="docker: $(words "$docker_said")"
    token_why=$data_why
  else
    [ "$has_agent" = no ] || [ "$agent_token" = no ] || token=yes
    token_why='k3s has no container yet, and .env has no token'
    look_new_data
    docker_said=$described
  fi
  if [ "$env_token" = yes ]; then token=yes asks=; fi
  case "$datastore $tombstone $set_aside $one_file_system" in
    *unknown*)
      # In the container itself, and not in a volume, nobody else could see it either.
      if [ -n "$data_in" ] && use_container "$data_in" && mount_for "$server_path/db/etcd/member/wal"; then
        asks=d$asks
      else
        data_why=${data_why:-"the data of k3s is in no volume, and $(id -un) may not look into the container"}
      fi
      ;;
  esac
  look_asked
  say datastore "$datastore"
  say tombstone "$tombstone"
  say set-aside "$set_aside"
  say one-file-system "$one_file_system"
  say token "$token"
  say entrypoint-k3s "$entry_k3s"
  say entrypoint-k3s-agent "$entry_agent"
  look_name
  look_password
  say data-why "${data_why:-${inside_why:-it could not be looked into}}"
  say token-why "${inside_why:-${token_why:-the configuration of k3s could not be looked into}}"
}

# look_asked: one container for everything that is to be asked, another one only where the two services differ.
look_asked() {
  if [ -n "$asks$asks_k3s" ] || { [ "$has_k3s" = yes ] && [ -n "$asks_agent" ] && [ "$entry_of_k3s" = "$entry_of_agent" ]; }; then
    asks_too=
    if [ "$has_k3s" = no ] || [ "$entry_of_k3s" = "$entry_of_agent" ]; then
      asks_too=$asks_agent
      asks_agent=
    fi
    asks_name=$container_k3s
    [ "$has_k3s" = yes ] || asks_name=$container_agent
    look_inside "$asks_name" "$asks" "$asks_k3s" "$asks_too"
    docker_said=$described
  fi
  # A docker that did not answer would only keep this look waiting once more.
  case $inside_why in *'did not answer'*) asks_agent= ;; esac
  if [ -n "$asks_agent" ]; then
    look_inside "$container_agent" '' '' "$asks_agent"
    docker_said=$described
  fi
}
