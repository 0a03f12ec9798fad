import { chmod, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Host } from './fleet.js';

/**
 * A kubectl for the stand-in that knows Nodes and pods: each Node is a file of its name whose lines are `cordoned` and
 * annotations, each pod a file of the node's name. It lives in the data directory of one server host, which outlives
 * containers, and answers what fleet-role may ask of it; anything else is an error, as a forgotten call should be.
 */
const KUBECTL = `#!/bin/sh
state=/var/lib/rancher/k3s/stand-in
echo "$*" >>"$state/asked"
[ -f "$state/down" ] && { echo 'The connection to the server was refused' >&2; exit 1; }
node_json() {
  unschedulable=false
  grep -q '^cordoned$' "$state/nodes/$1" && unschedulable=true
  by=$(sed -n 's|^fleet-role/cordoned-by=||p' "$state/nodes/$1" | sed -n 1p)
  annotations=
  [ -z "$by" ] || annotations=$(printf '"fleet-role/cordoned-by":"%s"' "$by")
  printf '{"metadata":{"name":"%s","annotations":{%s}},"spec":{"unschedulable":%s},"status":{"conditions":[{"type":"Ready","status":"True"}]}}' "$1" "$annotations" "$unschedulable"
}
list() { printf '{"items":['; sep=; for path in "$@"; do [ -e "$path" ] || continue; printf '%s' "$sep"; $emit "\${path##*/}"; sep=,; done; printf ']}\\n'; }
pod_json() { printf '{"metadata":{"name":"runner-%s"},"status":{"phase":"Running"}}' "$1"; }
case "$*" in
  'get nodes -o json --request-timeout=10s') emit=node_json; list "$state"/nodes/* ;;
  'get pods --all-namespaces -o json --field-selector=spec.nodeName='*)
    for word; do case $word in --field-selector=*) node=\${word#--field-selector=spec.nodeName=} ;; esac; done
    emit=pod_json; list "$state/pods/$node" ;;
  'annotate node '*' fleet-role/cordoned-by='*) echo "\${4}" >>"$state/nodes/$3" ;;
  'annotate node '*' fleet-role/cordoned-by- '*) grep -v '^fleet-role/' "$state/nodes/$3" >"$state/x"; cat "$state/x" >"$state/nodes/$3" ;;
  'cordon '*) [ -f "$state/nodes/$2" ] && echo cordoned >>"$state/nodes/$2" ;;
  'uncordon '*) grep -v '^cordoned$' "$state/nodes/$2" >"$state/x"; cat "$state/x" >"$state/nodes/$2" ;;
  'drain '*) [ -f "$state/nodes/$2" ] ;;
  'delete node '*' --wait=false --ignore-not-found '*) rm -f "$state/nodes/$3" ;;
  *) echo "the stand-in kubectl does not know: $*" >&2; exit 1 ;;
esac
`;

/** The cluster that the stand-in kubectl of one server host shows. */
export class StandInCluster {
  readonly #host: Host;
  readonly #state: string;

  private constructor(host: Host) {
    this.#host = host;
    this.#state = join(host.dataDir, 'stand-in');
  }

  /** Puts the kubectl on a server host and gives it Nodes. */
  static async create(host: Host, nodes: readonly string[]): Promise<StandInCluster> {
    const cluster = new StandInCluster(host);
    for (const folder of ['nodes', 'pods']) await mkdir(join(cluster.#state, folder), { recursive: true });
    for (const node of nodes) await writeFile(join(cluster.#state, 'nodes', node), '');
    const path = join(host.standInDir, 'kubectl');
    await writeFile(path, KUBECTL);
    await chmod(path, 0o755);
    return cluster;
  }

  async nodes(): Promise<string[]> {
    return (await readdir(join(this.#state, 'nodes'))).sort();
  }

  /** `cordoned` and annotations of a Node, in the order in which they came. */
  async node(name: string): Promise<string[]> {
    return (await readFile(join(this.#state, 'nodes', name), 'utf8')).split('\n').filter(Boolean);
  }

  /** What was asked of kubectl, in order. */
  async asked(): Promise<string[]> {
    return (await readFile(join(this.#state, 'asked'), 'utf8').catch(() => '')).split('\n').filter(Boolean);
  }

  /** A runner pod works on a node, or no longer does. */
  async runnerPod(node: string, there: boolean): Promise<void> {
    const path = join(this.#state, 'pods', node);
    await (there ? writeFile(path, '') : rm(path, { force: true }));
  }

  /** The API answers, or does not. */
  async answers(yes: boolean): Promise<void> {
    const path = join(this.#state, 'down');
    await (yes ? rm(path, { force: true }) : writeFile(path, ''));
  }

  /** Takes the kubectl away again. */
  async remove(): Promise<void> {
    await rm(join(this.#host.standInDir, 'kubectl'), { force: true });
    await rm(this.#state, { recursive: true, force: true });
  }
}
