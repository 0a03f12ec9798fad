import { composeUp } from './act.js';
import { calm, halfJoin, isUp, reboot, start } from './k3s.js';
import {
  boxOf,
  type Ground,
  type HostState,
  NO_BOX,
  type Service,
  type State,
  withBox,
  withHost,
  withNode,
} from './state.js';

// What can happen to the fleet beside what it does by itself: each of these counts against a path's budget.

export interface Fault {
  readonly kind: FaultKind;
  readonly what: string;
  readonly host: string;
  /** By somebody's hand, and no guard is in force there: no script could see it coming. */
  readonly unguarded: boolean;
  readonly next: State;
}

export const FAULT_KINDS = [
  'reboot',
  'service-restart',
  'cut',
  'dead',
  'emptied',
  'swallowed',
  'by-hand',
  'compose-up',
  // Of the run, not of the fleet:
  'run-dies',
  'late-script',
  'reverted',
] as const;

export type FaultKind = (typeof FAULT_KINDS)[number];

const SERVICES: readonly Service[] = ['k3s', 'k3s-agent'];

/** Every fault that may strike this state; `host` is the one that it concerns. */
export function faultsOf(ground: Ground, state: State): readonly Fault[] {
  return [...state.hosts].flatMap(([name, host]) => (host.at === 'up' ? faultsOfHost(ground, state, name, host) : []));
}

function faultsOfHost(ground: Ground, state: State, name: string, host: HostState): readonly Fault[] {
  const found: Fault[] = [];
  const add = (kind: FaultKind, what: string, next: State): void => {
    const unguarded = (kind === 'by-hand' || kind === 'compose-up') && !host.k3s.mounted && host.k3s.is !== 'absent';
    found.push({ kind, what, host: name, unguarded, next: calm(ground, next) });
  };
  add('reboot', `${name} reboots`, reboot(ground, state, name));
  for (const service of SERVICES) {
    const box = boxOf(host, service);
    if (box.is === 'running') {
      const down = withBox(state, name, service, { is: 'stopped', byHand: false });
      const up = box.policy === 'no' ? down : start(ground, down, name, service);
      add('service-restart', `${service} of ${name} exits and is restarted by its policy`, up);
    }
    if ((box.is === 'stopped' || box.is === 'created') && mayBeStarted(ground, host, service)) {
      add('by-hand', `somebody starts ${service} of ${name}`, start(ground, state, name, service));
    }
  }
  add('cut', `${name} is cut off`, withHost(state, name, { at: 'cut' }));
  add('dead', `${name} dies for good`, bury(state, name));
  // Without guards in force an emptied bootstrap server makes a second cluster before anybody can do anything about it.
  const guarded = host.k3s.is === 'absent' || host.k3s.mounted;
  if (guarded && (host.db !== null || host.tombstone || host.aside > 0)) {
    let bare = withHost(state, name, { db: null, tombstone: false, aside: 0 });
    for (const service of SERVICES) {
      const box = boxOf(host, service);
      if (isUp(box)) bare = withBox(bare, name, service, { is: 'stopped', byHand: false });
    }
    add('emptied', `${name} comes back with an empty disk`, reboot(ground, bare, name));
  }
  const half = halfJoin(state, name);
  if (half !== null) {
    add('cut', `${name} is cut off in the middle of joining`, withHost(half, name, { at: 'cut' }));
    add('dead', `${name} dies in the middle of joining`, bury(half, name));
  }
  if (state.nodes.get(name)?.removeAsked === true) {
    add('swallowed', `the request to remove ${name} is swallowed`, withNode(state, name, { removeAsked: false }));
  }
  const service = ground.profile.get(name);
  const fresh = host.k3s.is === 'absent' && host.agent.is === 'absent';
  const prepared = host.listed && (!fresh || (host.joinUrl ?? '') !== '');
  if (service !== undefined && (prepared || mayBeStarted(ground, host, service))) {
    add('compose-up', `somebody runs docker compose up -d on ${name}`, composeUp(ground, state, name, service));
  }
  return found;
}

/** Whatever was on it is gone with it. */
function bury(state: State, name: string): State {
  const gone = {
    db: null,
    tombstone: false,
    aside: 0,
    role: null,
    joinUrl: null,
    cluster: null,
    kept: null,
    sans: null,
  };
  return withHost(state, name, { ...gone, at: 'dead', k3s: NO_BOX, agent: NO_BOX });
}

/**
 * Nothing protects a host without guards from somebody's hand: a fresh machine whose own environment names no server
 * bootstraps, a server that was removed joins again through what its container's environment names (fact 1.16), and with
 * the older releases it makes a cluster of its own (fact 1.19). The model leaves that out, so that it sees what
 * fleet-role can prevent.
 */
function mayBeStarted(ground: Ground, host: HostState, service: Service): boolean {
  const box = boxOf(host, service);
  if (service !== 'k3s' || box.mounted) return true;
  if (box.is === 'absent') return false;
  const member = host.db !== null && !host.tombstone;
  return member || (ground.k3s === 'fixed' && (host.env.k3s ?? '') === '');
}
