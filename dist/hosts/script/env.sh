# shellcheck shell=sh disable=SC2154,SC2034
# The `.env` of a Compose project: read as Compose reads it, changed without touching any other byte.

# The rules of Compose's own reader (compose-go's dotenv): empty lines and lines that begin with `#` are skipped; `export`
# may stand before a name; `:` does as well as `=`; a value in quotes may run over lines; one without ends at ` #` or at
# the end of the line; CR before LF and a byte order mark do not count; the last one wins. Variables inside a value are
# not expanded here: no file list or join URL that fleet-role writes has any.
#
# It keeps the whole file as lines and, for the last value of each name, where the value stands. What it does with that
# is MODE: `get` prints `NAME VALUE` for every wanted name that has a value; `set`, `list` and `unlist` print the new file.
# shellcheck disable=SC2016 # awk's own fields
env_program='
function blank_at(text) { match(text, /^[ \t\r\f\v]*/); return RLENGTH }
function scan(   i, at, rest, skip, name, quote, from, value, last, column, char, closed) {
  for (i = 1; i <= count; i++) {
    at = 1
    if (i == 1 && substr(line[1], 1, 3) == "\357\273\277") at = 4
    at += blank_at(substr(line[i], at))
    rest = substr(line[i], at)
    if (rest == "" || substr(rest, 1, 1) == "#") continue
    if (match(rest, /^export[ \t\r\f\v]+/)) { at += RLENGTH; rest = substr(line[i], at) }
    if (!match(rest, /[=:]/)) continue
    name = substr(rest, 1, RSTART - 1)
    sub(/[ \t\r\f\v]+$/, "", name)
    at += RSTART
    at += blank_at(substr(line[i], at))
    quote = substr(line[i], at, 1)
    last = i
    if (quote != "\"" && quote != "\047") {
      quote = ""
      from = at
      value = substr(line[i], at)
      skip = index(value, " #")
      if (skip > 0) value = substr(value, 1, skip - 1)
      sub(/[ \t\r\f\v]+$/, "", value)
      column = from + length(value)
    } else {
      from = at + 1
      column = from
      value = ""
      closed = 0
      while (!closed) {
        char = substr(line[last], column, 1)
        if (char == "") {
          if (last == count) break
          last++
          column = 1
          value = value "\n"
        } else if (char == quote) closed = 1
        else if (char == "\\" && substr(line[last], column + 1, 1) == quote) { value = value quote; column += 2 }
        else if (char == "\\" && quote == "\"" && substr(line[last], column + 1, 1) == "\\") { value = value "\\"; column += 2 }
        else { value = value char; column++ }
      }
      # Compose reads nothing from a file with a quote that is never closed.
      if (!closed) { broken = 1; return }
    }
    first_line[name] = i; first_column[name] = from; last_line[name] = last; last_column[name] = column
    value_of[name] = value; quote_of[name] = quote
    i = last
  }
}
function quoted(text) {
  if (text ~ /^[A-Za-z0-9_.\/:@%,+=-]*$/) return text
  gsub(/\047/, "\\\047", text)
  return "\047" text "\047"
}
# The lines between are dropped: the new value has one line.
function replace(name, text,   before, after, start, i) {
  start = first_line[name]
  before = substr(line[start], 1, first_column[name] - 1)
  after = substr(line[last_line[name]], last_column[name])
  line[start] = before text after
  for (i = start + 1; i <= last_line[name]; i++) gone[i] = 1
}
function append(text,   end) {
  end = (count > 0 && line[1] ~ /\r$/) ? "\r" : ""
  if (count == 0) final = 1
  line[++count] = text (final ? end : "")
}
function raw(name) {
  return first_line[name] == last_line[name] ? \
    substr(line[first_line[name]], first_column[name], last_column[name] - first_column[name]) : value_of[name]
}
function is_ours(entry) { return entry == ours || entry == "./" ours || entry == directory "/" ours }
function listed(text,   parts, n, i) {
  n = split_list(text, parts)
  for (i = 1; i <= n; i++) if (is_ours(parts[i])) return 1
  return 0
}
# split() would take the separator as a pattern.
function split_list(text, parts,   n, at) {
  n = 0
  while ((at = index(text, separator)) > 0) { parts[++n] = substr(text, 1, at - 1); text = substr(text, at + length(separator)) }
  parts[++n] = text
  return n
}
function without(text,   parts, n, i, kept, any) {
  n = split_list(text, parts)
  kept = ""; any = 0
  for (i = 1; i <= n; i++) if (!is_ours(parts[i])) { kept = kept (any ? separator : "") parts[i]; any = 1 }
  return kept
}
function plain(text) { sub(/\r$/, "", text); return text }
# Where our marker stands above the value of COMPOSE_FILE: 2 when the line is still as we wrote it, else 1, or 0.
function marked(   at, text) {
  at = first_line["COMPOSE_FILE"] - 1
  if (at < 1) return 0
  text = plain(line[at])
  if (index(text, marker) == 1) text = substr(text, length(marker) + 1)
  else if (index(text, marker_file) == 1) text = substr(text, length(marker_file) + 1)
  else return 0
  return text == plain(line[at + 1]) ? 2 : 1
}
function print_file(   i, any) {
  any = 0
  for (i = 1; i <= count; i++) {
    if (i in gone) continue
    printf "%s%s", (any ? "\n" : ""), line[i]
    any = 1
  }
  if (any && final) printf "\n"
}
{ line[NR] = $0; count = NR }
END {
  mode = ENVIRON["FR_MODE"]; name = ENVIRON["FR_NAME"]; value = ENVIRON["FR_VALUE"]
  final = ENVIRON["FR_FINAL"] + 0; directory = ENVIRON["FR_DIRECTORY"]; ours = "docker-compose.fleet-role.yml"
  marker = "# fleet-role wrote the next line: "; marker_file = "# fleet-role wrote this file and the next line: "
  scan()
  if (broken) { print "broken"; exit 3 }
  separator = value_of["COMPOSE_PATH_SEPARATOR"] == "" ? ":" : value_of["COMPOSE_PATH_SEPARATOR"]
  present = value_of["COMPOSE_FILE"] != ""
  if (mode == "get") {
    wanted = split("COMPOSE_FILE COMPOSE_PATH_SEPARATOR K3S_JOIN_SERVER_URL K3S_URL K3S_TLS_SAN_LIST", names, " ")
    for (i = 1; i <= wanted; i++) {
      value = value_of[names[i]]
      gsub(/[\r\n]+/, " ", value)
      if (value != "") print names[i] " " value
    }
    if (listed(value_of["COMPOSE_FILE"])) print "listed yes"
    if (value_of["K3S_TOKEN"] value_of["K3S_TOKEN_FILE"] ~ /[^ \t\r\n]/) print "token yes"
    exit 0
  }
  if (mode == "set") {
    if (!(name in first_line)) append(name "=" quoted(value))
    else if (value_of[name] != value) {
      # An opening quote stands before the value and a closing one after it: both go.
      if (quote_of[name] != "") { first_column[name]--; last_column[name]++ }
      replace(name, quoted(value))
    }
  }
  if (mode == "list" && !listed(value_of["COMPOSE_FILE"])) {
    if (present) replace("COMPOSE_FILE", raw("COMPOSE_FILE") separator \
      (substr(value_of["COMPOSE_FILE"], 1, 1) == "/" ? directory "/" ours : ours))
    else {
      text = "COMPOSE_FILE=" quoted(value)
      append((ENVIRON["FR_NEW"] == "yes" ? marker_file : marker) text)
      append(text)
    }
  }
  if (mode == "unlist" && listed(value_of["COMPOSE_FILE"])) {
    above = first_line["COMPOSE_FILE"] - 1
    how = marked()
    if (how > 0) gone[above] = 1
    if (how == 2) gone[above + 1] = 1
    else replace("COMPOSE_FILE", without(raw("COMPOSE_FILE")))
  }
  print_file()
}
'

env_file() {
  env_path=$directory/.env
  env_links=0
  while [ -L "$env_path" ] && [ "$env_links" -lt 20 ]; do
    env_target=$(readlink "$env_path") || break
    case $env_target in
      /*) env_path=$env_target ;;
      *) env_path=${env_path%/*}/$env_target ;;
    esac
    env_links=$((env_links + 1))
  done
}

# env_run MODE NAME VALUE: the program on the file as it is now.
env_run() {
  env_source=$env_path
  [ -e "$env_path" ] || env_source=/dev/null
  FR_MODE=$1 FR_NAME=$2 FR_VALUE=$3 FR_FINAL=$env_final FR_NEW=$env_new FR_DIRECTORY=$directory \
    awk "$env_program" "$env_source"
}

# env_look: what `.env` says, into env_list, env_separator, env_listed, env_token, env_tls_sans and the two join URLs. Fails
# when it is unreadable.
env_look() {
  env_file
  env_list='' env_separator=: env_listed=no env_token=no env_k3s='' env_agent='' env_tls_sans='' env_final=1 env_new=no
  if [ ! -e "$env_path" ]; then return 0; fi
  if [ ! -f "$env_path" ] || [ ! -r "$env_path" ]; then
    fail "$directory/.env may not be read by $(id -un): connect as a user who may, or set ansible_become"
    return 1
  fi
  env_code=0
  env_said=$(env_run get '' '' 2>&1) || env_code=$?
  if [ "$env_code" = 3 ]; then
    fail "$directory/.env has a quote that is never closed, so Compose reads nothing from it: close it"
    return 1
  elif [ "$env_code" != 0 ]; then
    fail "$directory/.env cannot be read: $(words "$env_said")"
    return 1
  fi
  while read -r env_key env_value; do
    case $env_key in
      COMPOSE_FILE) env_list=$env_value ;;
      COMPOSE_PATH_SEPARATOR) env_separator=$env_value ;;
      K3S_JOIN_SERVER_URL) env_k3s=$env_value ;;
      K3S_URL) env_agent=$env_value ;;
      K3S_TLS_SAN_LIST) env_tls_sans=$env_value ;;
      listed) env_listed=yes ;;
      token) env_token=yes ;;
    esac
  done <<ENV
$env_said
ENV
}

# owner_of PATH: its mode, owner and group, as one text to compare.
owner_of() {
  # shellcheck disable=SC2046
  set -- $(ls -ldn "$1" 2>/dev/null)
  printf '%s' "${1-} ${3-} ${4-}"
}

# env_begin: the new file, with the owner and the mode of the old one.
env_begin() {
  rm -f "$env_fresh" || return 1
  if [ "$env_new" = no ]; then cp -p "$env_path" "$env_fresh"; else : >"$env_fresh" && chmod 0644 "$env_fresh"; fi
}

# env_change MODE NAME VALUE: makes `.env` say so. Owner, mode and every other byte stay; equal content is not written.
env_change() {
  env_look || return 1
  env_final=1
  if [ -e "$env_path" ]; then
    # The shell drops a final newline from what it captures: something left means that the last byte is another one.
    [ -z "$(tail -c 1 "$env_path")" ] || env_final=0
    # shellcheck disable=SC2094 # nothing is written
    if ! tr -d '\000' <"$env_path" | cmp -s - "$env_path"; then
      fail "$directory/.env holds a NUL byte and is no text file"
      return 1
    fi
    env_run "$1" "$2" "$3" | cmp -s - "$env_path" && return 0
  else
    env_new=yes
    [ -n "$(env_run "$1" "$2" "$3")" ] || return 0
  fi
  env_fresh=$env_path$fresh
  env_said=$(env_begin 2>&1) || {
    rm -f "$env_fresh" 2>/dev/null
    fail "cannot write $directory/.env: $(cannot_write "$env_path" "$env_said")"
    return 1
  }
  if [ "$env_new" = no ] && [ "$(owner_of "$env_path")" != "$(owner_of "$env_fresh")" ]; then
    rm -f "$env_fresh"
    fail "cannot keep the owner of $directory/.env: connect as its owner, or use become"
    return 1
  fi
  # Written through the name, so that the copy's owner and mode stay; checked, since a full disk cuts it off.
  env_run "$1" "$2" "$3" 2>/dev/null >"$env_fresh"
  if env_run "$1" "$2" "$3" | cmp -s - "$env_fresh" && flush "$env_fresh" && mv -f "$env_fresh" "$env_path" 2>/dev/null; then
    flush "${env_path%/*}"
    return 0
  fi
  rm -f "$env_fresh" 2>/dev/null
  fail "cannot write $directory/.env: $(cannot_write "$env_path" "$env_said")"
}

# env_remove_made: removes a `.env` that fleet-role made and that holds nothing any more. MADE is what the marker said.
env_remove_made() {
  if [ "$1" != yes ] || [ -s "$env_path" ]; then return 0; fi
  drop "$env_path"
}

# env_was_made: whether our marker says that there was no `.env` before.
env_was_made() {
  if [ -f "$env_path" ] && grep -q '^# fleet-role wrote this file and the next line: ' "$env_path"; then
    printf yes
  else
    printf no
  fi
}
