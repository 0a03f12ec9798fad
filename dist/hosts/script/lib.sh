# shellcheck shell=sh disable=SC2034,SC2154
# What every other part uses. POSIX sh: dash, busybox ash, bash. The parts are joined into one script that gets its data
# on standard input, so nothing that it starts may read from there.

# say KEY [TEXT]: one line of the answer.
say() { printf '%s %s\n' "$1" "${2-}"; }

# fail WORDS: why the step in hand is not done; always returns 1.
fail() {
  why=$1
  return 1
}

# words TEXT: its last line that is not empty, for a message. Programs say what matters last.
words() {
  words_last=
  while IFS= read -r words_line; do
    [ -z "$words_line" ] || words_last=$words_line
  done <<WORDS
$1
WORDS
  printf '%s' "${words_last:-it said nothing}"
}

has() { command -v "$1" >/dev/null 2>&1; }

# bounded SECONDS COMMAND...: for at most so long where the host has `timeout`. 124, 137 or 143 mean that it was ended.
bounded() {
  bounded_seconds=$1
  shift
  if timeout 5 true </dev/null >/dev/null 2>&1; then
    timeout -k 5 "$bounded_seconds" "$@" </dev/null
  else
    "$@" </dev/null
  fi
}

was_ended() { [ "$1" = 124 ] || [ "$1" = 137 ] || [ "$1" = 143 ]; }

# decode =TEXT: the value that the runner encoded. A point keeps final newlines from being lost.
decode() {
  decoded=$(printf '%b.' "${1#=}")
  decoded=${decoded%.}
}

# absolute PATH BASE: the path as an absolute one; `~` is the home of the connecting user, before become.
absolute() {
  # shellcheck disable=SC2088 # it is this tilde that is looked for
  case $1 in
    '~') absolute=$home ;;
    '~/'*) absolute=$home/${1#??} ;;
    /*) absolute=$1 ;;
    *) absolute=$2/$1 ;;
  esac
  while :; do
    case $absolute in
      /) break ;;
      */) absolute=${absolute%/} ;;
      *) break ;;
    esac
  done
}

# read_data: the host and the steps, from standard input. Fails when the end is missing: then nothing is done.
read_data() {
  directory='' project='' context='' container_k3s='' container_agent='' override='' override_entrypoint='' more_files='' steps=''
  data_dir='' drop_in_k3s='' drop_in_agent=''
  guard_entrypoint='' guard_condition='' lock_seconds=30 docker_seconds=20 step_seconds=120
  seen_files='' seen_services='' complete=no
  while read -r key first second third; do
    case $key in
      directory) decode "$first" && directory=$decoded ;;
      project) decode "$first" && project=$decoded ;;
      context) decode "$first" && context=$decoded ;;
      container-k3s) decode "$first" && container_k3s=$decoded ;;
      container-agent) decode "$first" && container_agent=$decoded ;;
      override) override=$first ;;
      override-entrypoint) override_entrypoint=$first ;;
      data-dir) decode "$first" && data_dir=$decoded ;;
      drop-in-k3s) drop_in_k3s=$first ;;
      drop-in-agent) drop_in_agent=$first ;;
      guard-entrypoint) guard_entrypoint=$first ;;
      guard-condition) guard_condition=$first ;;
      lock-seconds) lock_seconds=$first ;;
      docker-seconds) docker_seconds=$first ;;
      step-seconds) step_seconds=$first ;;
      seen-file) seen_files="$seen_files$first $second $third$newline" ;;
      seen-service) seen_services="$seen_services$first $second$newline" ;;
      compose-file)
        decode "$first"
        more_files=$more_files$decoded$newline
        ;;
      step) steps="$steps$first $second $third$newline" ;;
      end) complete=yes ;;
    esac
  done
  [ "$complete" = yes ]
}
