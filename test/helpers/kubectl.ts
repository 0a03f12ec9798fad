import { chmod, copyFile, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Host } from './fleet.js';

/** The kubectl of the stand-in cluster. STAND_IN_STATE names its directory when it runs outside a stand-in container. */
export const CLUSTER_KUBECTL = fileURLToPath(new URL('../e2e/stand-in/cluster-kubectl.sh', import.meta.url));

/** The UID of kube-system unless a test says otherwise. */
export const CLUSTER_UID = '5f0c7a3e-0000-4000-8000-c0ffee000001';

/**
 * What a call of the stand-in kubectl does instead of answering: the API refuses the connection, answers 5xx, never
 * answers, answers something that is no answer, seems to have nothing, answers so many seconds late, or does it and
 * reports a failure.
 */
export type Fault = 'down' | 'error' | 'hang' | 'nonsense' | 'plain-404' | 'applied' | `late ${number}`;

export type ObjectKind = 'lease' | 'configmap';

const FIRST_VERSION = 100001;

/** Which calls: all of a verb, those of a verb on one resource, or all. */
export type FaultPlace =
  | 'all'
  | 'get'
  | 'create'
  | 'replace'
  | 'delete'
  | `${'get' | 'create' | 'replace' | 'delete'}.${ObjectKind}`
  | 'get.namespace'
  | 'get.node'
  | 'get.raw';

/**
 * The directory that the stand-in kubectl shows as a cluster. `nodes/NODE` holds `cordoned` and annotations, `pods/NODE`
 * is a runner pod, `objects/` holds every version of the two objects of the name fleet-role, `uid` is that of kube-system,
 * `db-info` what /db/info answers, `not-ready` and `down` are switches, `faults/` holds those of `fault`.
 */
export class ClusterState {
  readonly directory: string;

  constructor(directory: string) {
    this.directory = directory;
  }

  /** Makes the directory of a cluster with these Nodes, no lease and no record. */
  async make(nodes: readonly string[], uid = CLUSTER_UID): Promise<void> {
    for (const folder of ['nodes', 'pods', 'objects', 'faults']) {
      await rm(join(this.directory, folder), { recursive: true, force: true });
      await mkdir(join(this.directory, folder), { recursive: true });
    }
    for (const node of nodes) await writeFile(join(this.directory, 'nodes', node), '');
    for (const name of ['asked', 'down', 'not-ready', 'db-info']) await rm(join(this.directory, name), { force: true });
    await this.identity(uid);
  }

  async nodes(): Promise<string[]> {
    return (await readdir(join(this.directory, 'nodes'))).sort();
  }

  /** The node's k3s was never here, or its Node was deleted. */
  async removeNode(name: string): Promise<void> {
    await rm(join(this.directory, 'nodes', name), { force: true });
  }

  /** `cordoned` and annotations of a Node, in the order in which they came. */
  async node(name: string): Promise<string[]> {
    return (await readFile(join(this.directory, 'nodes', name), 'utf8')).split('\n').filter(Boolean);
  }

  /** What was asked of kubectl, in order. */
  async asked(): Promise<string[]> {
    return (await readFile(join(this.directory, 'asked'), 'utf8').catch(() => '')).split('\n').filter(Boolean);
  }

  /** A runner pod works on a node, or no longer does. */
  async runnerPod(node: string, there: boolean): Promise<void> {
    await this.#put(join('pods', node), there ? '' : null);
  }

  /** The API answers, or does not. */
  async answers(yes: boolean): Promise<void> {
    await this.#put('down', yes ? null : '');
  }

  /** /readyz answers ok, or an error. */
  async ready(yes: boolean): Promise<void> {
    await this.#put('not-ready', yes ? null : '');
  }

  /** The UID of kube-system; null: there is no such namespace. */
  async identity(uid: string | null): Promise<void> {
    await this.#put('uid', uid);
  }

  /** What /db/info answers, byte for byte; null: there is no such path, as on SQLite. */
  async memberList(text: string | null): Promise<void> {
    await this.#put('db-info', text);
  }

  /** Calls at this place fail from now on, or (null) no longer do. */
  async fault(place: FaultPlace, fault: Fault | null): Promise<void> {
    await this.#put(join('faults', place), fault === null ? null : `${fault}\n`);
  }

  /** The Lease or the ConfigMap as it is stored; null when there is none. */
  // biome-ignore lint/suspicious/noExplicitAny: an object of the API, looked into by tests
  async object(kind: ObjectKind): Promise<any> {
    return (await this.history(kind)).at(-1) ?? null;
  }

  /** Every version that an object ever had, the newest last; null for a deletion. */
  // biome-ignore lint/suspicious/noExplicitAny: objects of the API, looked into by tests
  async history(kind: ObjectKind): Promise<any[]> {
    const texts = (await this.#versions(kind)).map((name) => readFile(join(this.directory, 'objects', name), 'utf8'));
    return (await Promise.all(texts)).map((text) => (text === '' ? null : JSON.parse(text)));
  }

  /**
   * Stores an object past kubectl as the next version, which it is given, or a text as it is; null deletes the object.
   * Throws where somebody else writes at the same moment.
   */
  async putObject(kind: ObjectKind, object: object | string | null): Promise<void> {
    const version = String(Number((await this.#versions(kind)).at(-1)?.split('.')[1] ?? FIRST_VERSION - 1) + 1);
    const metadata = { name: 'fleet-role', namespace: 'kube-system', uid: `uid-${kind}`, resourceVersion: version };
    const text = typeof object === 'object' && object !== null ? JSON.stringify({ ...object, metadata }) : object;
    await writeFile(join(this.directory, 'objects', `${kind}.${version}`), text === null ? '' : `${text}\n`, {
      flag: 'wx',
    });
  }

  async #versions(kind: ObjectKind): Promise<string[]> {
    return (await readdir(join(this.directory, 'objects'))).filter((name) => name.startsWith(`${kind}.`)).sort();
  }

  async #put(name: string, text: string | null): Promise<void> {
    const path = join(this.directory, name);
    if (text === null) return rm(path, { force: true });
    // At once and whole: a kubectl may be reading.
    await writeFile(`${path}.put`, text);
    await rename(`${path}.put`, path);
  }
}

/**
 * The cluster that the stand-in kubectl of one server host shows. It lives in that host's data directory, which
 * outlives containers.
 */
export class StandInCluster extends ClusterState {
  readonly #host: Host;

  private constructor(host: Host) {
    super(join(host.dataDir, 'stand-in'));
    this.#host = host;
  }

  /** Puts the kubectl on a server host and gives it Nodes. */
  static async create(host: Host, nodes: readonly string[]): Promise<StandInCluster> {
    const cluster = new StandInCluster(host);
    await cluster.make(nodes);
    const path = join(host.standInDir, 'kubectl');
    await copyFile(CLUSTER_KUBECTL, path);
    await chmod(path, 0o755);
    return cluster;
  }

  /** Takes the kubectl away again. */
  async remove(): Promise<void> {
    await rm(join(this.#host.standInDir, 'kubectl'), { force: true });
    await rm(this.directory, { recursive: true, force: true });
  }
}
