import type { World } from '../../src/plan/desired.js';
import { type NextSteps, nextSteps } from '../../src/plan/next-steps.js';
import { type HostObservation, known, PLAIN_NODE, type ReachedHost } from '../../src/plan/observation.js';
import { type Change, OLD, scenarioOf, UNGUARDED, USUAL } from './changes.js';
import type { Options, Scenario } from './explore.js';
import { GUARDS } from './observe.js';
import { splitOff } from './scenarios.js';
import { type State, withHost } from './state.js';

// Each rule of section 4 broken once: the rules are shown another world than there is, so that one of them cannot hold.

export interface BrokenRule {
  readonly rule: string;
  /** What the broken rule overlooks. */
  readonly overlooks: string;
  readonly scenario: Scenario;
  readonly faults: number;
  readonly decide: (world: World) => NextSteps;
  readonly more?: Partial<Options>;
  /** What the exploration finds. */
  readonly finds: RegExp;
}

type Lie = (world: World) => World;

const lying =
  (lie: Lie) =>
  (world: World): NextSteps =>
    nextSteps(lie(world));

function seeHosts(world: World, see: (host: ReachedHost, name: string) => HostObservation): World {
  const hosts = new Map(
    [...world.observed.hosts].map(([name, host]) => [name, host.kind === 'reached' ? see(host, name) : host]),
  );
  return { ...world, observed: { ...world.observed, hosts } };
}

function withoutMember(world: World, gone: (name: string) => boolean): World {
  const others = [...world.observed.servers].filter(([name]) => !gone(name));
  const servers = new Map(
    others.map(([name, server]) => {
      if (server.members.kind === 'unknown') return [name, server];
      const members = server.members.value.filter((member) => !gone(member.nodeName ?? ''));
      return [name, { ...server, members: known(members) }];
    }),
  );
  return { ...world, observed: { ...world.observed, servers } };
}

function isAgent({ desired }: World, name: string): boolean {
  return desired.hosts.some(({ host }) => host.name === name && host.role === 'agent');
}

/** A server that runs and does not vote yet is seen as the agent that it was. */
function stillAgents(world: World): World {
  const votes = (name: string): boolean =>
    [...world.observed.servers.values()].some(
      ({ members }) => members.kind === 'known' && members.value.some((one) => one.nodeName === name && !one.learner),
    );
  const joins = (name: string): boolean => world.observed.servers.has(name) && !votes(name);
  const agents = seeHosts(withoutMember(world, joins), (host, name) => {
    if (!joins(name) || host.services.kind === 'unknown') return host;
    const { k3s, 'k3s-agent': agent } = host.services.value;
    const services = { k3s: { ...k3s, state: 'absent' }, 'k3s-agent': { ...agent, state: 'running' } } as const;
    return { ...host, role: { kind: 'text', text: 'agent' }, services: known(services) };
  });
  const hosts = world.desired.hosts.map((entry) =>
    joins(entry.host.name) && entry.before !== null ? { ...entry, host: entry.before } : entry,
  );
  const { nodes } = world.observed;
  if (nodes?.kind !== 'known') return world;
  const seen = new Map([...nodes.value].map(([name, node]) => [name, joins(name) ? PLAIN_NODE : node]));
  const observed = { ...agents.observed, nodes: known(seen) };
  return { ...agents, observed, desired: { ...world.desired, hosts } };
}

const of = (change: string, making = USUAL, start: (state: State) => State = (state) => state): Scenario => {
  const scenario = scenarioOf(change.split(' ') as unknown as Change, making);
  return { ...scenario, start: start(scenario.start) };
};

export const BROKEN_RULES: readonly BrokenRule[] = [
  {
    rule: '1, one cluster',
    overlooks: 'what the API of n2 says, and what is written there',
    scenario: of('SS SA SA', USUAL, splitOff),
    faults: 0,
    decide: lying((world) => {
      const servers = new Map([...world.observed.servers].filter(([name]) => name !== 'n2'));
      const blind = seeHosts(world, (host, name) => (name === 'n2' ? { ...host, cluster: { kind: 'absent' } } : host));
      return { ...blind, observed: { ...blind.observed, servers } };
    }),
    finds: /while two identities are served/,
  },
  {
    rule: '2, quorum',
    overlooks: 'that a voter is not there',
    scenario: of('SS SS SS', { ...UNGUARDED, rollout: 'servers' }),
    faults: 1,
    decide: lying((world) => {
      const [voice] = world.observed.servers.values();
      const [seen] = [...world.observed.hosts.values()].filter((host) => host.kind === 'reached');
      if (voice === undefined || seen === undefined) return world;
      const absent = [...world.observed.hosts].filter(([, host]) => host.kind === 'unreachable').map(([name]) => name);
      const guarded = { ...seen, services: mountedServices(seen) };
      const hosts = new Map([...world.observed.hosts, ...absent.map((name) => [name, guarded] as const)]);
      const servers = new Map([...world.observed.servers, ...absent.map((name) => [name, voice] as const)]);
      return { ...world, observed: { ...world.observed, hosts, servers } };
    }),
    finds: /loses the quorum that is there/,
  },
  {
    rule: '3, one membership change at a time',
    overlooks: 'that a server which runs does not vote yet',
    scenario: of('SS AS AS'),
    faults: 0,
    decide: lying(stillAgents),
    finds: /while the membership of n\d is about to change/,
  },
  {
    rule: '4, fence before removal',
    overlooks: 'that no guards are in force',
    scenario: of('SA AS', OLD),
    faults: 0,
    decide: lying((world) => seeHosts(world, (host) => ({ ...host, services: mountedServices(host) }))),
    finds: /2 identities are served/,
  },
  {
    rule: '5, re-point before removal',
    overlooks: 'whom the other hosts join',
    scenario: of('SA AS SS SS'),
    faults: 0,
    decide: lying((world) =>
      seeHosts(world, (host, name) => {
        const wanted = world.desired.hosts.find((entry) => entry.host.name === name)?.host.joinUrlFile ?? '';
        return { ...host, joinUrl: { kind: 'text', text: wanted } };
      }),
    ),
    finds: /joins through it/,
  },
  {
    rule: '6, proof, not exit codes',
    overlooks: 'that a member is listed whose removal is not asked for any more',
    scenario: of('SA AS'),
    faults: 1,
    decide: lying((world) => {
      const { nodes } = world.observed;
      const asked = (name: string): boolean => nodes?.kind === 'known' && nodes.value.get(name)?.removeAsked === true;
      const fenced = (name: string): boolean => {
        const host = world.observed.hosts.get(name);
        return host?.kind === 'reached' && host.role.kind === 'text' && host.role.text === 'agent';
      };
      const begun = world.observed.run.done.some(({ action }) => action === 'snapshot');
      return withoutMember(world, (name) => begun && isAgent(world, name) && fenced(name) && !asked(name));
    }),
    finds: /moves the datastore of a listed member|loses the quorum|while its node takes work/,
  },
  {
    rule: '7, nothing is deleted that cannot be made again',
    overlooks: 'that the member of a declared agent is listed',
    scenario: of('SS SA SA'),
    faults: 0,
    decide: lying((world) => withoutMember(world, (name) => isAgent(world, name))),
    finds: /moves the datastore of a listed member|loses the quorum|while its node takes work/,
  },
  {
    rule: '8, the bootstrap host is a server like any other',
    overlooks: 'that the first server should join another',
    scenario: of('SS SS SS A-', USUAL, (state) => withHost(state, 'n1', { joinUrl: '' })),
    faults: 2,
    decide: (world) => {
      const blind = seeHosts(world, (host, name) => {
        const wanted = world.desired.hosts.find((entry) => entry.host.name === name)?.host.joinUrlFile ?? '';
        return name === 'n1' ? { ...host, joinUrl: { kind: 'text', text: wanted } } : host;
      });
      return nextSteps(blind);
    },
    finds: /2 identities are served/,
  },
  {
    rule: '9, never cut jobs without need',
    overlooks: 'that a node takes work',
    scenario: of('SA AS'),
    faults: 0,
    decide: lying((world) => {
      const drained = world.desired.hosts.map(
        ({ host }) => ({ action: 'drain', host: host.name, service: null }) as const,
      );
      const { observed } = world;
      const nodes =
        observed.nodes?.kind === 'known'
          ? known(new Map([...observed.nodes.value].map(([name, node]) => [name, { ...node, unschedulable: true }])))
          : observed.nodes;
      return { ...world, observed: { ...observed, nodes, run: { done: [...observed.run.done, ...drained] } } };
    }),
    finds: /while its node takes work/,
  },
  {
    rule: '10, an unreachable host is never assumed to have obeyed',
    overlooks: 'that a server cannot be reached',
    scenario: of('SS SA SA'),
    faults: 1,
    decide: lying((world) => ({ ...world, intent: { ...world.intent, forceUnreachable: true } })),
    finds: /while nobody reaches it/,
  },
  {
    rule: '11, not on the branch it sits on',
    overlooks: 'on which node the run sits',
    scenario: of('SA AS', { ...USUAL, runner: 'n2' }),
    faults: 0,
    decide: lying((world) => ({ ...world, intent: { ...world.intent, runsOn: null } })),
    finds: /while the run itself sits there/,
  },
  {
    rule: '12, forward only',
    overlooks: 'that the head is older than what was begun',
    scenario: of('SA AS'),
    faults: 2,
    decide: lying((world) => ({ ...world, intent: { ...world.intent, relation: 'forward' } })),
    more: { reruns: true, without: new Set(['reboot', 'service-restart', 'cut', 'dead', 'emptied', 'late-script']) },
    finds: /an older commit is applied again/,
  },
  {
    rule: '13, whole before part',
    overlooks: 'that there is no token',
    scenario: of('SA AS', { ...USUAL, tokenless: ['n2'] }),
    faults: 0,
    decide: lying((world) => seeHosts(world, (host) => ({ ...host, token: known(true) }))),
    finds: /it does not end/,
  },
];

function mountedServices(host: ReachedHost): ReachedHost['services'] {
  if (host.services.kind === 'unknown') return host.services;
  const { k3s, 'k3s-agent': agent } = host.services.value;
  const guards = { mounted: true, guardsInside: GUARDS };
  return known({ k3s: { ...k3s, ...guards }, 'k3s-agent': { ...agent, ...guards } });
}
