import { asset } from '../assets.js';
import type { Service } from '../fleet/fleet.js';
import { type Known, known, type ServiceObservation, type ServiceState, unknown } from '../plan/observation.js';
import type { HostRuntime } from './runtime.js';
import { type Answer, encode } from './script.js';
import { show } from './words.js';

const STATES: ReadonlySet<string> = new Set<ServiceState>([
  ...(['running', 'idle', 'stopped', 'restarting', 'absent', 'unknown'] as const),
]);

/** The systemd units `k3s` (a server) and `k3s-agent`. Their role directory is always /etc/github-runner. */
export const native: HostRuntime = {
  // What lies in the data directory is looked at by `inside`, one of the shared parts.
  parts: ['unit', 'native', 'native-steps'],

  data(host, seconds) {
    return [
      ['data-dir', encode(host.dataDir)],
      ['drop-in-k3s', encode(dropIn('k3s', host.dataDir))],
      ['drop-in-agent', encode(dropIn('k3s-agent', host.dataDir))],
      // It bounds systemctl here.
      ['docker-seconds', String(seconds)],
    ];
  },

  reject(host) {
    if (host.dataDir.startsWith('/')) return null;
    return `${show(host.dataDir)} is no absolute path, which github_runner_cluster_data_dir has to be`;
  },

  override(answer) {
    const placed = answer.get('override');
    return {
      placed: placed === 'ours' || placed === 'absent' ? placed : 'differs',
      // There is no list: systemd takes a drop-in by where it lies.
      listed: false,
    };
  },

  services(answer) {
    const why = answer.get('services');
    if (why !== null) return unknown(why);
    const k3s = unitOf(answer, 'k3s');
    const agent = unitOf(answer, 'k3s-agent');
    if (k3s.kind === 'unknown') return k3s;
    if (agent.kind === 'unknown') return agent;
    return known({ k3s: k3s.value, 'k3s-agent': agent.value });
  },
};

/**
 * The drop-in of a unit. In a quoted word systemd reads `\` and `"` only behind a `\`, `%` as a specifier and `$` as a
 * variable unless they are doubled (systemd.service(5), "Command lines").
 */
export function dropIn(service: Service, dataDir: string): string {
  const word = dataDir.replace(/\/+$/, '').replace(/[\\"]/g, '\\$&').replace(/[%$]/g, '$&$&');
  // Everywhere but in the comment, which says what is replaced.
  return asset(`node/systemd/${service}.service.d/fleet-role.conf`).replace('"@DATA_DIR@', () => `"${word}`);
}

/** A unit by its line `NAME STATE RESTARTS MOUNTED POLICY` of the script's answer. */
function unitOf(answer: Answer, service: Service): Known<ServiceObservation> {
  const line = answer.all('unit').find((each) => each.startsWith(`${service} `));
  const [, state = '', restarts = '', mounted = '', policy = ''] = line?.split(' ') ?? [];
  if (!STATES.has(state)) return unknown(`the host script said nothing of ${service}.service`);
  const absent = state === 'absent';
  const url = answer.all('unit-url').find((each) => each.startsWith(`${service} `));
  return known({
    state: state as ServiceState,
    containerId: null,
    restartCount: Number(restarts) || 0,
    restartPolicy: absent ? null : policy,
    mounted: mounted === 'yes',
    configFiles: null,
    // Read anew at each start (fact 9.6): what the unit would be given now is its own environment.
    joinUrlEnvironment: url?.slice(service.length + 1).trim() || null,
    // A unit honours the role directory by its drop-in; it has no entrypoint that could be foreign.
    entrypoint: mounted === 'yes' ? 'honours' : 'unknown',
    guardsInside: mounted === 'yes' ? (answer.all('guards')[1] ?? '') || null : null,
  });
}
