# shellcheck shell=sh disable=SC2154,SC2034
# Files of the role directory and beside it: looked at, and replaced atomically, only when they differ.

# A file on its way is called NAME$fresh. The name can be fixed because the host lock is held while one exists.
fresh=.fleet-role-new

# read_file PATH: sets file_kind to absent, unreadable or text, and file_text.
read_file() {
  file_text=
  if [ -d "$role_directory" ] && [ ! -x "$role_directory" ]; then
    file_kind=unreadable
  elif [ ! -e "$1" ] && [ ! -L "$1" ]; then
    file_kind=absent
  elif [ ! -f "$1" ] || ! file_size=$(wc -c <"$1" 2>/dev/null) || [ "$file_size" -gt 4096 ] ||
    ! file_text=$(cat "$1" 2>/dev/null); then
    file_kind=unreadable file_text=
  else
    file_kind=text
  fi
}

# say_file KEY PATH: its kind, and one line of the answer for each of its lines.
say_file() {
  read_file "$2"
  say "$1" "$file_kind"
  [ "$file_kind" = text ] || return 0
  while IFS= read -r file_line; do
    say "$1:" "$file_line"
  done <<FILE
$file_text
FILE
}

# trim TEXT: without white space around it, in `trimmed`.
trim() {
  trimmed=$1
  while :; do
    case $trimmed in
      [[:space:]]*) trimmed=${trimmed#?} ;;
      *[[:space:]]) trimmed=${trimmed%?} ;;
      *) return 0 ;;
    esac
  done
}

# A runtime with more to compare has a function of its own by that name.
# shellcheck disable=SC2317
runtime_seen() { :; }

# as_seen: whether the role directory's files and the services are still what the runner saw before it decided.
as_seen() {
  while read -r seen_name seen_kind seen_text; do
    [ -n "$seen_name" ] || continue
    read_file "$role_directory/$seen_name"
    trim "$file_text"
    decode "${seen_text:-=}"
    case $seen_kind in
      odd) [ "$file_kind" != text ] || continue ;;
      *) if [ "$file_kind" = "$seen_kind" ] && [ "$trimmed" = "$decoded" ]; then continue; fi ;;
    esac
    fail "$role_directory/$seen_name has changed since it was looked at; run this again"
    return 1
  done <<SEEN
$seen_files
SEEN
  [ -z "$seen_services" ] || runtime_seen
}

# guard_version PATH: the version on the second line of a guard script, empty when there is none.
guard_version() {
  guard_line=
  [ ! -f "$1" ] || [ ! -r "$1" ] || { read -r _ && read -r guard_line; } <"$1"
  case $guard_line in
    '# fleet-role-guards '*) printf '%s' "${guard_line#\# fleet-role-guards }" ;;
  esac
}

# flush PATH: what was written there is on the disk, by whatever this host has for it.
flush() { sync "$1" 2>/dev/null || sync; }

# same_text PATH =TEXT
same_text() { [ -f "$1" ] && printf '%b' "${2#=}" | cmp -s - "$1"; }

# put PATH MODE =TEXT: the file holds exactly that. Written beside, flushed, checked, renamed; nothing when it does already.
put() {
  if same_text "$1" "$3"; then
    [ "$2" != 0755 ] || [ -x "$1" ] || chmod "$2" "$1" 2>/dev/null || {
      fail "cannot make $1 executable"
      return 1
    }
    return 0
  fi
  if [ -d "$1" ]; then
    fail "$1 is a directory"
    return 1
  fi
  # By cat, which says what is wrong with the disk; some shells' own printf does not.
  put_said=$({ rm -f "$1$fresh" && printf '%b' "${3#=}" | cat >"$1$fresh" && chmod "$2" "$1$fresh"; } 2>&1) &&
    same_text "$1$fresh" "$3" && flush "$1$fresh" && put_said=$(mv -f "$1$fresh" "$1" 2>&1) && flush "${1%/*}" &&
    return 0
  rm -f "$1$fresh" 2>/dev/null
  fail "cannot write $1: $(cannot_write "$1" "$put_said")"
}

# cannot_write PATH WORDS: why, in one line; a shell whose redirection failed has said nothing that could be kept.
cannot_write() {
  if [ -n "$2" ]; then
    words "$2"
  elif [ ! -w "${1%/*}" ]; then
    printf '%s cannot be written (read-only, or owned by somebody else)' "${1%/*}"
  else
    printf 'the disk is full, or it cannot be written'
  fi
}

# drop PATH: the file is gone.
drop() {
  if [ ! -e "$1" ] && [ ! -L "$1" ]; then return 0; fi
  drop_said=$(rm -f "$1" 2>&1) && flush "${1%/*}" && return 0
  fail "cannot remove $1: $(words "$drop_said")"
}

# put_word NAME =TEXT: one word or URL in a file of the role directory; nothing at all in it when the text is empty.
put_word() {
  if [ ! -d "$role_directory" ]; then
    fail "there is no role directory $role_directory"
    return 1
  fi
  case $2 in
    =) put "$role_directory/$1" 0644 = ;;
    *) put "$role_directory/$1" 0644 "$2\\0012" ;;
  esac
}

# runtime_join_url =URL: what a runtime has to do before join-url holds that URL. A runtime's own part stands after this one
# and may define it, has_project and step_install_guards anew.
runtime_join_url() { :; }

# has_project: whether there is a directory to work in: the project's, or where the runtime has its lock.
has_project() { [ -d "${lock_path%/*}" ] || fail "there is no project directory ${lock_path%/*}"; }

step_create_role_directory() {
  has_project || return 1
  [ ! -d "$role_directory" ] || return 0
  if [ -e "$role_directory" ] || [ -L "$role_directory" ]; then
    fail "$role_directory is there and is no directory"
    return 1
  fi
  directory_said=$(mkdir -m 0755 "$role_directory" 2>&1) && flush "${role_directory%/*}" && return 0
  fail "cannot make $role_directory: $(words "$directory_said")"
}

step_install_guards() {
  if [ ! -d "$role_directory" ]; then
    fail "there is no role directory $role_directory"
    return 1
  fi
  put "$role_directory/node-entrypoint.sh" 0755 "$guard_entrypoint" &&
    put "$role_directory/fleet-role-is.sh" 0755 "$guard_condition"
}

# step_clear_role_files =NAMES: separated by spaces; only the files that fleet-role itself writes there.
step_clear_role_files() {
  decode "$1"
  for clear_name in $decoded; do
    case $clear_name in
      role | join-url) drop "$role_directory/$clear_name" || return 1 ;;
      *)
        fail "$clear_name is no role file"
        return 1
        ;;
    esac
  done
}

# start_of PID: when that process began, empty when it is gone or cannot be told.
start_of() {
  start_of=
  [ -r "/proc/$1/stat" ] && IFS= read -r start_line 2>/dev/null <"/proc/$1/stat" || return 0
  # The name in brackets may hold anything; what follows the last bracket is numbers.
  start_line=${start_line##*) }
  # shellcheck disable=SC2086
  set -- $start_line
  start_of=${20-}
}

boot_id() {
  boot_id=
  [ ! -r /proc/sys/kernel/random/boot_id ] || IFS= read -r boot_id </proc/sys/kernel/random/boot_id
}

# lives OWNER: whether the process that took the lock still runs: same process id, same start, same boot.
lives() {
  lives_pid=${1%%.*}
  lives_rest=${1#*.}
  case $lives_pid in '' | *[!0-9]*) return 1 ;; esac
  [ "${lives_rest#*.}" = "$boot_id" ] || return 1
  start_of "$lives_pid"
  if [ -n "$start_of" ]; then [ "$start_of" = "${lives_rest%%.*}" ]; else kill -0 "$lives_pid" 2>/dev/null; fi
}

# lock: takes the host lock, a link whose target names its owner: made and named in one step. A lock whose owner is gone
# is removed; that itself is done under a second lock, so that of two takers neither removes the lock of the other.
lock() {
  boot_id
  start_of "$$"
  lock_owner=$$.$start_of.$boot_id
  lock_tries=0
  while :; do
    # The link would be made inside a directory, and lock nothing.
    if [ -e "$lock_path" ] && [ ! -L "$lock_path" ]; then
      fail "cannot lock $directory: $lock_path is not a lock of fleet-role; remove it"
      return 1
    fi
    lock_said=$(ln -s "$lock_owner" "$lock_path" 2>&1) && break
    lock_holder=$(readlink "$lock_path" 2>/dev/null)
    if [ -z "$lock_holder" ] && { [ "$lock_tries" -gt 0 ] || [ ! -w "${lock_path%/*}" ]; }; then
      fail "cannot lock ${lock_path%/*}: $(words "$lock_said")"
      return 1
    fi
    if [ -n "$lock_holder" ] && ! lives "$lock_holder"; then
      if mkdir "$lock_path.old" 2>/dev/null; then
        [ "$(readlink "$lock_path" 2>/dev/null)" != "$lock_holder" ] || rm -f "$lock_path"
        rmdir "$lock_path.old"
        continue
      fi
      # Left behind by a script that was killed between those two lines.
      [ -z "$(find "$lock_path.old" -prune -mmin +1 2>/dev/null)" ] || rmdir "$lock_path.old" 2>/dev/null
    fi
    if [ "$lock_tries" -ge "$lock_seconds" ]; then
      fail "another fleet-role script (process ${lock_holder%%.*}) still works on ${lock_path%/*}: wait until it has ended, then run this again"
      return 1
    fi
    lock_tries=$((lock_tries + 1))
    sleep 1
  done
  locked=yes
  trap unlock EXIT
  trap 'exit 143' HUP INT TERM
}

unlock() {
  [ "$locked" = yes ] || return 0
  locked=no
  rm -f "$lock_path"
}
