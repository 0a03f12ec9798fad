#!/usr/bin/env bash
# Installs what the tests need and a new Debian machine lacks: packages, Docker Compose v2, a running Docker Engine.
# Safe to run again: it does only what is missing. Needs root, or sudo without a password.
set -euo pipefail

PACKAGES=(docker.io iptables openssh-server openssh-client busybox-static ansible-core shellcheck dash etcd-server
  git sudo systemd procps ca-certificates)
# Debian 12 has only Compose 1, which is another program. The plugin binary of the next release runs here as it is.
COMPOSE_SUITE=trixie
PLUGINS=/usr/local/lib/docker/cli-plugins
ENGINE_LOG=${FLEET_ROLE_ENGINE_LOG:-/tmp/fleet-role-dockerd.log}
# Whoever started the engine may stop it: the process id is written only when this script started it.
ENGINE_PID=${FLEET_ROLE_ENGINE_PID:-/tmp/fleet-role-dockerd.pid}

say() { printf 'install: %s\n' "$*" >&2; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

install_packages() {
  local missing=() name
  for name in "${PACKAGES[@]}"; do
    # shellcheck disable=SC2016 # ${Status} is dpkg-query's own field, not a shell variable
    [ "$(dpkg-query -W -f '${Status}' "$name" 2>/dev/null)" = 'install ok installed' ] || missing+=("$name")
  done
  [ "${#missing[@]}" -gt 0 ] || return 0
  say "packages: ${missing[*]}"
  as_root apt-get -q -o DPkg::Lock::Timeout=300 update >&2
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "${missing[@]}" >&2
}

compose_is_v2() { docker compose version --short 2>/dev/null | grep -Eq '^v?([2-9]|[1-9][0-9])\.'; }

# The machine's own package sources with the suite changed, in a folder of their own: the machine keeps its release.
install_compose() {
  compose_is_v2 && return 0
  local work codename
  work=$(mktemp -d)
  # apt's download runs as the user _apt, which must be able to write here.
  chmod 755 "$work"
  mkdir -p "$work/parts" "$work/lists/partial" "$work/cache/archives/partial" "$work/files"
  # shellcheck source=/dev/null
  codename=$(. /etc/os-release && printf '%s' "$VERSION_CODENAME")
  say "Compose v2 from Debian $COMPOSE_SUITE"
  sed -e "s/$codename-updates//g; s/$codename-backports//g; s/$codename/$COMPOSE_SUITE/g" \
    /etc/apt/sources.list.d/debian.sources >"$work/parts/debian.sources"
  local options=(-q -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$work/parts"
    -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root)
  as_root apt-get "${options[@]}" update >&2
  (cd "$work" && as_root apt-get "${options[@]}" download docker-compose >&2)
  dpkg -x "$work"/docker-compose_*.deb "$work/files"
  as_root install -D -m 0755 "$work/files/usr/libexec/docker/cli-plugins/docker-compose" "$PLUGINS/docker-compose"
  as_root rm -rf "$work"
  compose_is_v2 || { say "docker compose is still not v2: $(docker compose version 2>&1 | head -1)"; return 1; }
}

start_engine() {
  docker info >/dev/null 2>&1 && return 0
  say "starting dockerd (log: $ENGINE_LOG)"
  as_root rm -f "$ENGINE_PID"
  # A session of its own and no inherited output: the engine outlives this script and holds no pipe of its caller.
  # shellcheck disable=SC2016 # expanded by the inner shell
  as_root setsid sh -c 'echo "$$" >"$2"; exec dockerd >"$1" 2>&1 </dev/null' sh "$ENGINE_LOG" "$ENGINE_PID" >/dev/null 2>&1 &
  local tries
  for tries in $(seq 1 120); do
    docker info >/dev/null 2>&1 && return 0
    sleep 0.5
  done
  say "the Docker Engine did not answer after $tries tries; the end of its log:"
  tail -n 20 "$ENGINE_LOG" >&2 || true
  return 1
}

[ -r /etc/debian_version ] || { say 'this script knows Debian only; install the packages it lists by hand'; exit 1; }
install_packages
install_compose
start_engine
as_root mkdir -p /run/sshd
say "ready: engine $(docker version --format '{{.Server.Version}}'), compose $(docker compose version --short)"
