import { type Change, type Making, scenarioOf, UNGUARDED, USUAL } from './changes.js';
import type { Scenario } from './explore.js';
import { faultsOf } from './faults.js';
import { type State, withHost } from './state.js';

// Beside the changes of roles: the controller is turned on and off, and a server is rejoined.

const THREE: Change = ['SS', 'SS', 'SS'];

/** The controller is turned on (then nothing is mounted yet and there is no record) or off, roles staying as they are. */
export function controllerScenarios(making: Making = USUAL): readonly Scenario[] {
  const fleets: readonly Change[] = [['SS'], ['SS', 'AA'], THREE, ['SS', 'SS', 'SS', 'AA']];
  return fleets.flatMap((change) => [
    named(scenarioOf(change, making, { base: true, head: false }), `${change.join(' ')}, controller off`),
    named(scenarioOf(change, UNGUARDED, { base: false, head: true }), `${change.join(' ')}, controller on`),
  ]);
}

function named(scenario: Scenario, name: string): Scenario {
  return { ...scenario, name };
}

/** n2 has made a cluster of its own, in which it is alone. */
export function splitOff(state: State): State {
  const own = { host: 'n2', name: 'n2-000000ff', voter: true, started: true };
  const clusters = [[...(state.clusters[0] ?? [])].filter(({ host }) => host !== 'n2'), [own]];
  const apart = withHost(state, 'n2', { db: { kind: 'etcd', cluster: 1, member: own.name }, cluster: 1 });
  return { ...apart, clusters };
}

/** The cluster has forgotten the member of this host: it has learned so, and waits with its tombstone. */
function forgotten(state: State, name: string): State {
  const clusters = state.clusters.map((members) => members.filter(({ host }) => host !== name));
  const host = state.hosts.get(name);
  if (host === undefined) throw new Error(`no host ${name}`);
  return { ...withHost(state, name, { tombstone: true, k3s: { ...host.k3s, is: 'idle' } }), clusters };
}

/** `mode: rejoin` of one server of three, for each way in which it can have been lost. */
export function rejoinScenarios(making: Making = USUAL): readonly Scenario[] {
  const base = scenarioOf(THREE, making);
  const emptied = (state: State, name: string): State => {
    const fault = faultsOf(base.ground, state).find((one) => one.kind === 'emptied' && one.host === name);
    if (fault === undefined) throw new Error(`${name} cannot be emptied`);
    return fault.next;
  };
  const of = (host: string, what: string, damage: (state: State) => State): Scenario => ({
    ...base,
    name: `rejoin of ${host}, ${what}`,
    start: damage(base.start),
    intent: (target, state) => ({ ...base.intent(target, state), mode: 'rejoin', host }),
    rejoins: host,
  });
  return [
    of('n1', 'its disk is empty (it bootstraps)', (state) => emptied(state, 'n1')),
    of('n2', 'its disk is empty', (state) => emptied(state, 'n2')),
    of('n2', 'its member was removed', (state) => forgotten(state, 'n2')),
    of('n2', 'it made a cluster of its own', splitOff),
    of('n3', 'it votes', (state) => state),
  ];
}
