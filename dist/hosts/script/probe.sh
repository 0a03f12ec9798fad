# shellcheck shell=sh disable=SC2154
# Looks at everything and changes nothing.

look() {
  say directory "$directory"
  if ! reachable "$directory"; then
    say blocked "$reachable may not be looked into by $(id -un): connect as a user who may, or set ansible_become"
    return 0
  fi
  # Docker may name the source of the mount by either.
  say role-directory-path "$role_directory"
  say role-directory-path "$(cd "$role_directory" 2>/dev/null && pwd -P)"
  say time "$(date +%s)"
  if [ -d "$role_directory" ]; then say role-directory present; else say role-directory absent; fi
  say_file role "$role_directory/role"
  say_file join-url "$role_directory/join-url"
  say_file cluster "$role_directory/cluster"
  say_file restart-policy "$role_directory/restart-policy"
  say guards "$(guard_version "$role_directory/node-entrypoint.sh")"
  say guards "$(guard_version "$role_directory/fleet-role-is.sh")"
  runtime_look
}
