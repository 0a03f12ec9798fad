# shellcheck shell=sh disable=SC2154,SC2034
# The order of things: read the data, do the steps one after the other until one fails, then look.

# do_step ACTION SERVICE =VALUE
do_step() {
  case $1 in
    create-role-directory) step_create_role_directory ;;
    install-guards) step_install_guards ;;
    write-role) put_word role "$3" ;;
    write-join-url) runtime_join_url "$3" && put_word join-url "$3" ;;
    write-identity) put_word cluster "$3" ;;
    clear-role-files) step_clear_role_files "$3" ;;
    *) runtime_step "$1" "$2" "$3" ;;
  esac
}

do_steps() {
  number=0
  if ! { has_project && lock; }; then
    say step-failed "1 $why"
    return 0
  fi
  if ! as_seen; then
    say step-failed "1 $why"
    unlock
    return 0
  fi
  # What a script that was killed left on its way.
  lock_directory=${lock_path%/*}
  rm -f "$lock_directory"/*"$fresh" "$lock_directory"/.*"$fresh" "$role_directory"/*"$fresh" 2>/dev/null
  while read -r action service value <&3; do
    [ -n "$action" ] || continue
    number=$((number + 1))
    why='it cannot be told why'
    if do_step "$action" "$service" "$value"; then
      say step-done "$number"
    else
      say step-failed "$number $why"
      break
    fi
  done 3<<STEPS
$steps
STEPS
  unlock
}

main() {
  newline='
'
  home=${1:-$HOME}
  locked=no
  read_data || return 90
  absolute "$directory" "$home"
  directory=$absolute
  runtime_paths
  [ -z "$steps" ] || do_steps </dev/null
  look </dev/null
  say end
}

main "$@"
