#!/bin/sh
# A kubectl for the stand-in whose cluster is a directory: Nodes and pods, the Lease and the ConfigMap with the versions
# and conflicts of a real API, the UID of kube-system, /readyz and /db/info. It answers what fleet-role may ask of it;
# anything else is an error, as a forgotten call should be. test/helpers/kubectl.ts says what lies in the directory.
state=${STAND_IN_STATE:-/var/lib/rancher/k3s/stand-in}
printf '%s\n' "$*" >>"$state/asked"

refused() {
  echo 'The connection to the server 127.0.0.1:6443 was refused - did you specify the right host or port?' >&2
  exit 1
}
from_server() {
  echo "Error from server ($1): $2" >&2
  exit 1
}
[ ! -f "$state/down" ] || refused

# A field of the object on standard input, which is one line of JSON without spaces, as JSON.stringify writes it.
field() { printf '%s\n' "$input" | sed -n "s/.*\"$1\":\"\([A-Za-z0-9]*\)\".*/\1/p"; }

verb=${1-} resource=${2-} input=
case $verb in
  create | replace)
    input=$(cat)
    resource=$(field kind)
    ;;
esac
case $resource in
  Lease | leases.coordination.k8s.io) resource=lease ;;
  ConfigMap | configmaps) resource=configmap ;;
  nodes) resource=node ;;
  --raw) resource=raw ;;
esac
object=$state/objects/$resource

# One line a Node, as src/cluster/nodes.ts asks for them: name, labels, unschedulable, Ready, and what it lacks.
node_line() {
  unschedulable='' by=''
  ! grep -q '^cordoned$' "$state/nodes/$1" || unschedulable=true
  by=$(sed -n 's|^fleet-role/cordoned-by=||p' "$state/nodes/$1" | tail -n 1)
  printf '%s\t{}\t%s\tTrue\t\t\t\t%s\t\t\t\t\t\t\t\n' "$1" "$unschedulable" "$by"
}
pod_json() { printf '{"metadata":{"name":"runner-%s"},"status":{"phase":"Running"}}' "$1"; }
list() {
  emit=$1 separator=
  shift
  printf '{"items":['
  for path in "$@"; do
    [ -e "$path" ] || continue
    printf '%s' "$separator"
    "$emit" "${path##*/}"
    separator=,
  done
  printf ']}\n'
}

# Every version of an object is a file, object.VERSION; the newest counts, and an empty one says that it was deleted. A
# version is made by `ln`, which fails where somebody else made it first: two writers need no lock that could be left.
newest=''
find_newest() {
  newest=''
  for path in "$object".??????; do [ ! -e "$path" ] || newest=$path; done
}
exists() { [ -n "$newest" ] && [ -s "$newest" ]; }
# The object on standard input as it is stored with the version $1.
stored() {
  printf '%s\n' "$input" | sed -e 's/,"resourceVersion":"[0-9]*"//' \
    -e "s/\"metadata\":{/\"metadata\":{\"uid\":\"uid-$resource\",\"resourceVersion\":\"$1\",/"
}
# Makes what $1 says (stored, or : for a deletion) the version after the newest that was found.
store() {
  version=${newest##*.}
  version=$((${version:-100000} + 1))
  new=$(mktemp "$state/new.XXXXXX")
  "$1" "$version" >"$new"
  if ln "$new" "$object.$version" 2>/dev/null; then
    cat "$new"
    rm -f "$new"
  else
    rm -f "$new"
    return 1
  fi
}
conflict() { from_server Conflict "$resource \"fleet-role\": the object has been modified; please apply your changes to the latest version"; }
already() { from_server AlreadyExists "$resource \"fleet-role\" already exists"; }
read_object() {
  find_newest
  ! exists || cat "$newest"
}
create() {
  [ -z "$(field resourceVersion)" ] || from_server Invalid 'resourceVersion should not be set on objects to be created'
  find_newest
  ! exists || already
  store stored || already
}
replace() {
  find_newest
  exists || from_server NotFound "$resource \"fleet-role\" not found"
  now=${newest##*.} wanted=$(field resourceVersion)
  # As the real one: without a version the object is replaced whatever it holds.
  [ "${wanted:-$now}" = "$now" ] || conflict
  # A replace that changes nothing makes no new version.
  if [ "$(stored "$now")" = "$(cat "$newest")" ]; then cat "$newest"; else store stored || conflict; fi
}
delete() {
  find_newest
  while exists && ! store :; do find_newest; done
}

answer() {
  case "$*" in
    'get nodes -o jsonpath={.kind}'*)
      echo List
      for path in "$state"/nodes/*; do [ ! -e "$path" ] || node_line "${path##*/}"; done
      echo end
      ;;
    'get pods --all-namespaces -o json --field-selector=spec.nodeName='*)
      for word; do
        case $word in --field-selector=*) node=${word#--field-selector=spec.nodeName=} ;; esac
      done
      list pod_json "$state/pods/$node"
      ;;
    'annotate node '*' fleet-role/cordoned-by='*) echo "$4" >>"$state/nodes/$3" ;;
    'annotate node '*' fleet-role/cordoned-by- '*)
      grep -v '^fleet-role/' "$state/nodes/$3" >"$state/x"
      cat "$state/x" >"$state/nodes/$3"
      ;;
    'cordon '*) [ -f "$state/nodes/$2" ] && echo cordoned >>"$state/nodes/$2" ;;
    'uncordon '*)
      grep -v '^cordoned$' "$state/nodes/$2" >"$state/x"
      cat "$state/x" >"$state/nodes/$2"
      ;;
    'drain '*) [ -f "$state/nodes/$2" ] ;;
    'delete node '*' --wait=false --ignore-not-found '*) rm -f "$state/nodes/$3" ;;
    'get '*' fleet-role --namespace=kube-system --ignore-not-found -o json --request-timeout=5s')
      case $resource in lease | configmap) ;; *) from_server NotFound 'the server could not find the requested resource' ;; esac
      read_object
      ;;
    'create -f - -o json --validate=false --request-timeout=5s' | 'replace -f - -o json --validate=false --request-timeout=5s')
      case $resource in lease | configmap) "$verb" ;; *) from_server BadRequest 'not an object that the stand-in knows' ;; esac
      ;;
    'delete secret '*'.node-password.k3s --namespace=kube-system --ignore-not-found --request-timeout=10s') ;;
    'delete configmaps fleet-role --namespace=kube-system --ignore-not-found --wait=false --request-timeout=5s') delete ;;
    'get namespace kube-system -o json --request-timeout=10s')
      [ -f "$state/uid" ] || from_server NotFound 'namespaces "kube-system" not found'
      printf '{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-system","uid":"%s"}}\n' "$(cat "$state/uid")"
      ;;
    'get --raw /readyz --request-timeout=10s')
      [ ! -f "$state/not-ready" ] || from_server InternalError 'an error on the server ("[-]etcd-readiness failed") has prevented the request from succeeding'
      printf ok
      ;;
    'get --raw /db/info --request-timeout=10s')
      [ -f "$state/db-info" ] || from_server NotFound 'the server could not find the requested resource'
      cat "$state/db-info"
      ;;
    *)
      echo "the stand-in kubectl does not know: $*" >&2
      return 1
      ;;
  esac
}

fault='' seconds=''
for name in all "$verb" "$verb.$resource"; do
  [ -f "$state/faults/$name" ] || continue
  read -r fault seconds <"$state/faults/$name"
done
case $fault in
  '') ;;
  down) refused ;;
  error) from_server InternalError 'an error on the server ("") has prevented the request from succeeding' ;;
  hang) exec sleep 3600 ;;
  nonsense)
    echo '<html>nonsense</html>'
    exit 0
    ;;
  # What kubectl makes of any 404, with --ignore-not-found.
  plain-404) exit 0 ;;
  late) sleep "$seconds" ;;
  applied)
    (answer "$@") >/dev/null
    refused
    ;;
  *)
    echo "the stand-in kubectl has no fault: $fault" >&2
    exit 1
    ;;
esac
answer "$@"
