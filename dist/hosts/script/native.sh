# shellcheck shell=sh disable=SC2154,SC2034
# A host whose k3s runs by systemd units: not looked at yet.

runtime_paths() {
  role_directory=/etc/github-runner
  lock_path=/etc/github-runner/.fleet-role.lock
}

runtime_look() {
  say env-listed no
  say env-k3s ''
  say env-k3s-agent ''
  say provisioned no
  say override absent
  say services 'native hosts are not looked at yet'
}

runtime_step() { fail 'this version of fleet-role does not know that step on a native host'; }
