import { type DeclaredHost, isDnsName } from './declared-host.js';
import type { ClusterSettings, Role } from './fleet.js';
import { type JoinTarget, parseJoinUrl } from './join-url.js';
import type { ClusterGroup } from './layout.js';
import type { Problem } from './problem.js';
import { CLUSTER_VARIABLES, type ClusterVariable, type HostVariable, own, show } from './variables.js';

/** What the topology rule made of a cluster, for the problems that only the whole shows. */
export interface Outcome {
  readonly group: Pick<ClusterGroup, 'name' | 'place'>;
  readonly declared: readonly DeclaredHost[];
  readonly settings: ClusterSettings;
  readonly roles: ReadonlyMap<string, Role>;
  readonly bootstrap: DeclaredHost | null;
  readonly servers: readonly DeclaredHost[];
  readonly joinUrl: (host: DeclaredHost) => string | null;
}

const SETTING_VALUES: Readonly<Record<ClusterVariable, (settings: ClusterSettings) => unknown>> = {
  controller: (settings) => settings.controller,
  max_servers: (settings) => settings.maxServers,
  api_port: (settings) => settings.apiPort,
  datastore: (settings) => settings.datastore,
};

/** A cluster-level variable with two values in one cluster: `setting-differs`, on the line of the odd one. */
export function settingProblems(
  group: Pick<ClusterGroup, 'name'>,
  declared: readonly DeclaredHost[],
): readonly Problem[] {
  const first = declared[0];
  if (first === undefined) return [];
  const problems: Problem[] = [];
  for (const variable of CLUSTER_VARIABLES) {
    const settingOf = SETTING_VALUES[variable];
    const expected = settingOf(first.settings);
    const odd = declared.filter((host) => settingOf(host.settings) !== expected);
    const nameOf = (host: DeclaredHost): string => (variable === 'api_port' ? host.portVariable : own(variable));
    const isSet = (host: DeclaredHost): boolean => host.reader.get(nameOf(host)) !== undefined;
    const culprit = odd.find(isSet) ?? odd[0];
    if (culprit === undefined) continue;
    // Where the odd hosts only have the default, the line that sets it for the first host is the one to look at.
    const setter = isSet(culprit) ? culprit : first;
    problems.push({
      code: 'setting-differs',
      message: `${nameOf(setter)} is ${String(expected)} for ${first.name} and ${String(settingOf(culprit.settings))} for ${culprit.name}; it belongs to the whole cluster, so set it once, for the group ${group.name}.`,
      ...setter.reader.place(nameOf(setter)),
      hosts: odd.map((host) => host.name),
    });
  }
  return problems;
}

/** Every problem of roles, bootstrap host, join URLs and names; all of them, in the order of the specification. */
export function clusterProblems(outcome: Outcome): readonly Problem[] {
  return [
    ...bootstrapProblems(outcome),
    ...serverProblems(outcome),
    ...joinProblems(outcome),
    ...nodeNameProblems(outcome.declared),
  ];
}

function bootstrapProblems({ declared, settings }: Outcome): readonly Problem[] {
  const problems: Problem[] = [];
  const marked = declared.filter((host) => host.declaredBootstrap === true);
  const second = marked[1];
  if (second !== undefined) {
    problems.push({
      code: 'many-bootstraps',
      message: `${marked.map((host) => host.name).join(', ')} all have ${own('bootstrap')}: true; leave it to one host, since a cluster is bootstrapped once.`,
      ...second.reader.place(own('bootstrap')),
      hosts: marked.map((host) => host.name),
    });
  }
  for (const host of declared) {
    if (host.declaredBootstrap === true && host.nodeRole === 'agent') {
      problems.push(
        one(
          host,
          'agent-bootstraps',
          'bootstrap',
          `${host.name} is declared an agent and the bootstrap host; only a server bootstraps a cluster: remove one of the two.`,
        ),
      );
    }
    if (host.declaredBootstrap === true && host.serverUrl !== null) {
      problems.push(
        one(
          host,
          'bootstrap-joins-elsewhere',
          'server_url',
          `${host.name} bootstraps the cluster and joins ${show(host.serverUrl)}; it can do only one of the two: remove ${own('bootstrap')} or ${own('server_url')}.`,
        ),
      );
    }
    if (settings.controller && host.pinned && host.nodeRole === 'agent') {
      problems.push(
        one(
          host,
          'pinned-agent',
          'node_role',
          `${host.name} is pinned as a server and declared an agent; remove ${own('server_pinned')} or ${host.group?.role === 'agent' ? `move the host out of ${host.group.name}` : own('node_role')}.`,
        ),
      );
    }
  }
  return problems;
}

function serverProblems({ group, declared, settings, bootstrap, servers }: Outcome): readonly Problem[] {
  const names = servers.map((host) => host.name);
  const everyoneJoinsElsewhere = declared.every((host) => host.serverUrl !== null);
  if (servers.length === 0 && !everyoneJoinsElsewhere) {
    const agent = declared.find((host) => host.nodeRole === 'agent') ?? declared[0];
    return [
      {
        code: 'no-servers',
        message: `No host of ${group.name} is a server; remove ${own('node_role')}: agent from one host, or give every host ${own('server_url')}.`,
        ...(agent?.reader.place(own('node_role')) ?? group.place),
        hosts: [],
      },
    ];
  }
  // The line of the last server is the edit that made the count wrong more often than any other.
  const last = servers.at(-1);
  if (settings.datastore === 'sqlite' && servers.length !== 1 && last !== undefined) {
    return [
      {
        code: 'sqlite-servers',
        message: `A cluster on SQLite has exactly one server, and ${names.join(', ')} are ${servers.length}; leave one, or set ${own('datastore')}: etcd.`,
        ...last.reader.place(own('node_role')),
        hosts: names,
      },
    ];
  }
  if (bootstrap !== null && servers.length % 2 === 0 && last !== undefined) {
    return [
      {
        code: 'even-servers',
        message: `${servers.length} servers (${names.join(', ')}) tolerate no more failures than ${servers.length - 1} and lose quorum more easily; declare one more or one fewer.`,
        ...last.reader.place(own('node_role')),
        hosts: names,
      },
    ];
  }
  return [];
}

function joinProblems({ declared, settings, bootstrap, servers, joinUrl }: Outcome): readonly Problem[] {
  const problems: Problem[] = [];
  const stranded = servers.length === 0 ? [] : declared.filter((host) => host !== bootstrap && joinUrl(host) === null);
  const first = stranded[0];
  if (first !== undefined) {
    problems.push({
      code: 'nothing-to-join',
      message: `${stranded.map((host) => host.name).join(', ')} have nothing to join: no server of the cluster bootstraps it; remove ${own('bootstrap')}: false or ${own('server_url')} from a server, or give these hosts ${own('server_url')}.`,
      ...first.place,
      hosts: stranded.map((host) => host.name),
    });
  }
  // Nearly all hosts join through one URL.
  const targets = new Map<string, JoinTarget | null>();
  for (const host of declared) {
    const url = joinUrl(host);
    if (url === null) continue;
    let target = targets.get(url);
    if (target === undefined) {
      target = parseJoinUrl(url);
      targets.set(url, target);
    }
    if (target === null) continue;
    const ownNames = [host.address, host.nodeName, host.rest.connection.host].map((name) => name?.toLowerCase());
    if (target.port !== settings.apiPort || !ownNames.includes(target.host)) continue;
    const message = (variable: string): string =>
      `${host.name} would join ${show(url)}, which is itself; name another server, or remove ${variable}.`;
    if (host.serverUrl !== null) problems.push(one(host, 'joins-itself', 'server_url', message(own('server_url'))));
    else if (host.endpoint?.toLowerCase() === target.host) {
      problems.push({
        code: 'joins-itself',
        message: message('api_endpoint'),
        ...host.reader.place('api_endpoint'),
        hosts: [host.name],
      });
    }
  }
  return problems;
}

function nodeNameProblems(declared: readonly DeclaredHost[]): readonly Problem[] {
  const problems: Problem[] = [];
  const byName = new Map<string, DeclaredHost>();
  for (const host of declared) {
    // What only the host knows is neither good, bad, nor the same as another's.
    if (host.nodeName === null) continue;
    if (!isDnsName(host.nodeName)) {
      problems.push(
        one(
          host,
          'bad-node-name',
          'node_name',
          `${show(host.nodeName)} is no Kubernetes node name (a lower-case DNS name): k3s would run and never register it; give ${host.name} a ${own('node_name')}.`,
        ),
      );
    }
    const other = byName.get(host.nodeName.toLowerCase());
    if (other === undefined) byName.set(host.nodeName.toLowerCase(), host);
    else {
      problems.push({
        code: 'duplicate-node-name',
        message: `${other.name} and ${host.name} have the node name ${show(host.nodeName)}; k3s knows a node by its name: change ${own('node_name')} of one of them.`,
        ...host.reader.place(own('node_name')),
        hosts: [other.name, host.name],
      });
    }
  }
  return problems;
}

function one(
  host: DeclaredHost,
  code: Problem['code'],
  variable: HostVariable | ClusterVariable,
  message: string,
): Problem {
  return { code, message, ...host.reader.place(own(variable)), hosts: [host.name] };
}
