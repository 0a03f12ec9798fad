import { asset } from '../assets.js';
import { JOIN_VARIABLES, type Service } from '../fleet/fleet.js';
import {
  type Entrypoint,
  type Known,
  known,
  type ServiceObservation,
  type ServiceState,
  unknown,
} from '../plan/observation.js';
import type { HostRuntime } from './runtime.js';
import { type Answer, encode } from './script.js';
import { clean, show } from './words.js';

/** Docker's own rules for these names; a container name that begins with `-` would be an option to it. */
const CONTAINER = /^[A-Za-z0-9][A-Za-z0-9_.-]*$/;
const CONTEXT = /^[A-Za-z0-9][A-Za-z0-9_.+-]*$/;

const MOUNT_POINT = '/etc/github-runner';
/** Docker's restart back-off starts anew after a life of this many seconds (fact 8.15). */
const SETTLED_SECONDS = 10;

/** The services `k3s` and `k3s-agent` of a Compose project. */
export const compose: HostRuntime = {
  parts: ['env', 'mounts', 'node', 'project', 'compose', 'services'],

  data(host, seconds) {
    return [
      ['project', encode(host.composeProject)],
      ['context', encode(host.dockerContext ?? '')],
      ['container-k3s', encode(host.containers.k3s)],
      ['container-agent', encode(host.containers['k3s-agent'])],
      ['override', encode(asset('node/docker-compose.fleet-role.yml'))],
      ['override-entrypoint', encode(asset('node/docker-compose.fleet-role-entrypoint.yml'))],
      ['docker-seconds', String(seconds)],
      ...host.composeFiles.map((file) => ['compose-file', encode(file)]),
    ];
  },

  reject(host) {
    for (const name of [host.containers.k3s, host.containers['k3s-agent']]) {
      if (!CONTAINER.test(name)) return `${show(name)} is no name of a container`;
    }
    if (host.containers.k3s === host.containers['k3s-agent']) return 'its two containers have one name';
    if (host.dockerContext !== null && host.dockerContext !== '' && !CONTEXT.test(host.dockerContext)) {
      return `${show(host.dockerContext)} is no name of a Docker context`;
    }
    return null;
  },

  override(answer) {
    const placed = answer.get('override');
    return {
      placed: placed === 'ours' || placed === 'ours-entrypoint' || placed === 'absent' ? placed : 'differs',
      listed: answer.get('env-listed') === 'yes',
    };
  },

  services(answer, host, roleDirectories) {
    const why = answer.get('services');
    if (why !== null) return unknown(why);
    const containers = new Map<string, Container>();
    for (const line of answer.all('container')) {
      const space = line.indexOf(' ');
      const container = readContainer(line.slice(space + 1), line.slice(0, space));
      if (container === null) return unknown('docker inspect answered something that describes no container');
      containers.set(container.name, container);
    }
    const now = Number(answer.get('time') ?? Number.NaN);

    const seen = (service: Service): Known<ServiceObservation> => {
      const container = containers.get(host.containers[service]);
      return container === undefined
        ? notDescribed(answer, host.containers[service])
        : known({
            ...observe(container, service, now, roleDirectories),
            ...guardsOf(answer, container, service, roleDirectories),
          });
    };
    const [k3s, agent] = [seen('k3s'), seen('k3s-agent')];
    if (k3s.kind === 'unknown') return k3s;
    if (agent.kind === 'unknown') return agent;
    return known({ k3s: k3s.value, 'k3s-agent': agent.value });
  },
};

/** What docker says of a container, and whether a k3s process was found in it. */
interface Container {
  readonly name: string;
  readonly id: string;
  readonly status: string;
  readonly exitCode: number;
  readonly startedAt: string;
  readonly restartCount: number;
  readonly restartPolicy: string;
  readonly mounts: readonly Mount[];
  readonly configFiles: string | null;
  readonly environment: readonly string[];
  readonly holdsK3s: 'yes' | 'no' | 'unknown';
}

interface Mount {
  readonly Source?: unknown;
  readonly Destination?: unknown;
  readonly RW?: unknown;
}

/** The container of one line of the script's answer; null when it is not what our format makes docker say. */
function readContainer(text: string, holds: string): Container | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof value !== 'object' || value === null) return null;
  const of = value as Record<string, unknown>;
  const { id, name, status, exitCode, startedAt, restartCount, restartPolicy, mounts, configFiles, environment } = of;
  if (typeof id !== 'string' || typeof name !== 'string' || typeof status !== 'string') return null;
  if (typeof exitCode !== 'number' || typeof restartCount !== 'number' || typeof restartPolicy !== 'string')
    return null;
  if (!Array.isArray(environment)) return null;
  return {
    ...{ id, status, exitCode, restartCount, restartPolicy },
    name: name.replace(/^\//, ''),
    startedAt: typeof startedAt === 'string' ? startedAt : '',
    // A container without mounts has null here.
    mounts: Array.isArray(mounts) ? mounts.filter((each) => typeof each === 'object' && each !== null) : [],
    configFiles: typeof configFiles === 'string' && configFiles !== '' ? configFiles : null,
    environment: environment.filter((each) => typeof each === 'string'),
    holdsK3s: holds === 'yes' || holds === 'no' ? holds : 'unknown',
  };
}

function observe(
  container: Container,
  service: Service,
  now: number,
  roleDirectories: readonly string[],
): Omit<ServiceObservation, 'entrypoint' | 'guardsInside'> {
  const prefix = `${JOIN_VARIABLES[service]}=`;
  const url =
    container.environment
      .findLast((each) => each.startsWith(prefix))
      ?.slice(prefix.length)
      .trim() ?? '';
  return {
    state: stateOf(container, now),
    containerId: container.id,
    restartCount: container.restartCount,
    restartPolicy: container.restartPolicy,
    mounted: isMounted(container, roleDirectories),
    configFiles: container.configFiles?.split(',') ?? null,
    joinUrlEnvironment: url === '' ? null : url,
  };
}

function isMounted(container: Container, roleDirectories: readonly string[]): boolean {
  return container.mounts.some(
    (mount) =>
      mount.Destination === MOUNT_POINT &&
      mount.RW === false &&
      typeof mount.Source === 'string' &&
      roleDirectories.includes(mount.Source),
  );
}

/**
 * Whose entrypoint the container has, by the script's line `entrypoint-SERVICE WORD [VERSION]`, and the guards that it
 * would meet. The version is the entrypoint's own: an older one of ours in the image stays old beside newer scripts.
 */
function guardsOf(
  answer: Answer,
  container: Container,
  service: Service,
  roleDirectories: readonly string[],
): Pick<ServiceObservation, 'entrypoint' | 'guardsInside'> {
  const [word, version = ''] = (answer.get(`entrypoint-${service}`) ?? '').split(' ');
  const entrypoint: Entrypoint = word === 'ours' || word === 'honours' || word === 'foreign' ? word : 'unknown';
  if ((entrypoint !== 'ours' && entrypoint !== 'honours') || !isMounted(container, roleDirectories)) {
    return { entrypoint, guardsInside: null };
  }
  const inside = version || (entrypoint === 'honours' ? (answer.get('guards') ?? '') : '');
  return { entrypoint, guardsInside: inside === '' ? null : inside };
}

/**
 * - `running` with a k3s process is running, without one idle; where the processes cannot be seen it is unknown.
 * - A guard that refuses exits 1, and docker starts it again and again: most of the time docker says `restarting`, and
 *   in between `running` for a moment, with a restart counted and a very short life.
 */
function stateOf(container: Container, now: number): ServiceState {
  const { status, exitCode, restartCount, holdsK3s } = container;
  switch (status) {
    case 'running': {
      if (holdsK3s === 'yes') return 'running';
      if (holdsK3s === 'unknown') return 'unknown';
      const life = now - Date.parse(container.startedAt) / 1000;
      return restartCount > 0 && life < SETTLED_SECONDS ? 'refusing' : 'idle';
    }
    case 'restarting':
      return exitCode === 1 ? 'refusing' : 'restarting';
    case 'created':
    case 'exited':
    case 'dead':
      return 'stopped';
    default:
      return 'unknown';
  }
}

const ABSENT: ServiceObservation = {
  state: 'absent',
  containerId: null,
  restartCount: 0,
  restartPolicy: null,
  mounted: false,
  configFiles: null,
  joinUrlEnvironment: null,
  // What it will be is in an image that nothing runs from yet.
  entrypoint: 'unknown',
  guardsInside: null,
};

/**
 * A service whose container docker did not describe. It is absent only where docker itself said that it has none of
 * exactly that name; whatever else docker said makes it unknown, with docker's words.
 */
function notDescribed(answer: Answer, name: string): Known<ServiceObservation> {
  const said = answer.all('docker-said');
  // Docker's words are not translated, and one that is missed only makes the service unknown.
  const missing = new RegExp(`no such (?:container|object):? "?${name.replace(/\./g, '\\.')}"?\\s*$`, 'i');
  if (said.some((line) => missing.test(line))) return known(ABSENT);
  const words = clean(said.join('\n'));
  if (words !== '') return unknown(`docker: ${words}`);
  return unknown(`docker inspect said nothing about ${name} (exit status ${answer.get('inspect') ?? 'unknown'})`);
}
