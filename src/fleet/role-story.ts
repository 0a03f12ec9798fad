import { bootstrapUrl } from './causes.js';
import type { Cluster, Host, Source } from './fleet.js';
import type { LayoutKind } from './layout.js';
import { assignRoles, type Roles } from './topology.js';
import { PREFIX, ROLE_GROUP } from './variables.js';

/** Hosts named in one sentence. */
const NAMES = 12;

/** How the host's role, join URL and TLS SANs follow from the topology rule, one sentence or more a step. */
export function explainRole(cluster: Cluster, host: Host, layout: LayoutKind): readonly string[] {
  const { settings } = cluster;
  if (settings === null) return [];
  const rule = assignRoles(cluster.hosts, settings);
  return [
    `Step 1, forced roles: ${forcedBy(cluster, host)}.`,
    ...(layout === 'groups' ? [] : [candidatesOf(cluster, host, rule), choiceOf(cluster, host, rule)]),
    `Step 4, the bootstrap host: ${bootstrapOf(cluster, rule)}.`,
    `Step 5, the join URL: ${joinUrlOf(cluster, host)}.`,
    `Step 6, TLS SANs: ${sansOf(host)}.`,
  ];
}

function forcedBy(cluster: Cluster, host: Host): string {
  const source = (short: string): Source | undefined => host.sources.get(PREFIX + short);
  const by = (short: string): string =>
    `${PREFIX}${short} makes ${host.name} ${withArticle(host.role)}${at(source(short))}`;
  const group = host.sources.get(ROLE_GROUP);
  if (source('node_role') !== undefined && host.nodeRole !== null) return by('node_role');
  if (group !== undefined) {
    return `${host.name} is in the group ${group.value}, which makes it ${withArticle(host.role)}${at(group)}; order, ${PREFIX}max_servers and ${PREFIX}server_eligible choose no role in the layout of groups`;
  }
  if (host.declaredBootstrap === true) return by('bootstrap');
  if (host.pinned && cluster.controller === true) return by('server_pinned');
  const off = host.pinned ? `; ${PREFIX}server_pinned counts only while the controller is on` : '';
  return `none for ${host.name}${off}`;
}

function candidatesOf(cluster: Cluster, host: Host, { candidates, forced, target }: Roles<Host>): string {
  const most =
    cluster.datastore === 'sqlite'
      ? '1, because the datastore is sqlite'
      : `${PREFIX}max_servers ${cluster.settings?.maxServers ?? ''}`;
  const names = candidates.length === 0 ? 'none' : list(candidates.map(({ name }) => name));
  const why = candidates.includes(host)
    ? ''
    : ` ${host.name} is none of them: ${forced.get(host.name) === 'agent' ? 'it is forced to be an agent' : ineligible(host)}.`;
  return `Step 2, candidates (${candidates.length} of ${cluster.hosts.length} hosts): ${names}.${why} The target is ${target}, the largest odd number not above both ${candidates.length} and ${most}.`;
}

function ineligible(host: Host): string {
  const source = host.sources.get(`${PREFIX}server_eligible`);
  return host.eligible === false
    ? `${PREFIX}server_eligible is false${at(source)}`
    : `other hosts have ${PREFIX}server_eligible: true, so only those may be chosen`;
}

function choiceOf(cluster: Cluster, host: Host, { roles, forced, candidates, target }: Roles<Host>): string {
  const forcedServers = candidates.filter(({ name }) => forced.has(name)).length;
  const free = candidates.filter(({ name }) => !forced.has(name));
  const room = Math.max(0, target - forcedServers);
  const rule = `Step 3, in inventory order: ${forcedServers} of the ${target} are forced servers, so the first ${Math.min(room, free.length)} of ${free.length === 0 ? 'no free candidates' : list(free.map(({ name }) => name))} become servers`;
  const number = free.indexOf(host) + 1;
  const own =
    number === 0
      ? `${host.name} is not chosen here and is ${withArticle(roles.get(host.name) ?? 'agent')}`
      : `${host.name} is number ${number} and so ${withArticle(roles.get(host.name) ?? 'agent')}`;
  return `${rule}; ${own}. Servers: ${cluster.servers.length === 0 ? 'none' : list(cluster.servers)}.`;
}

function bootstrapOf(cluster: Cluster, { bootstrap }: Roles<Host>): string {
  if (bootstrap === null) return `no host of ${cluster.name} bootstraps it`;
  return bootstrap.declaredBootstrap === true
    ? `${bootstrap.name}, by ${PREFIX}bootstrap: true${at(bootstrap.sources.get(`${PREFIX}bootstrap`))}`
    : `${bootstrap.name}, the first server that neither joins a URL of its own nor has ${PREFIX}bootstrap: false`;
}

function joinUrlOf(cluster: Cluster, host: Host): string {
  const url = host.joinUrl;
  const file =
    host.joinUrlFile === url
      ? ''
      : `; its join-url file gets ${host.joinUrlFile ?? 'nothing, while the controller is off'}`;
  if (host.serverUrl !== null) return `${host.serverUrl}, its own${at(host.sources.get(`${PREFIX}server_url`))}${file}`;
  if (url === null)
    return `none, ${host.bootstrap ? 'since it bootstraps the cluster' : 'since there is nothing to join'}${file}`;
  if (url === bootstrapUrl(cluster)) return `${url}, the address and port of the bootstrap host${file}`;
  return `${url}, by api_endpoint${at(host.sources.get('api_endpoint'))}${file}`;
}

function sansOf(host: Host): string {
  const own = host.sources.get(`${PREFIX}tls_sans`);
  const names = host.tlsSans.length === 0 ? 'none' : list(host.tlsSans);
  return own === undefined ? `${names}, the addresses of all servers` : `${names}, its own${at(own)}`;
}

function at(source: Source | undefined): string {
  if (source === undefined || source.file === null) return '';
  return ` (${source.file}${source.line === null ? '' : `:${source.line}`})`;
}

function withArticle(role: string): string {
  return role === 'server' ? 'a server' : 'an agent';
}

function list(names: readonly string[]): string {
  const more = names.length > NAMES ? ` and ${names.length - NAMES} more` : '';
  return `${names.slice(0, NAMES).join(', ')}${more}`;
}
