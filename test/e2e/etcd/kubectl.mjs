// What kubectl asks of this API: no more than fleet-role, its entrypoint and the tests ask. Anything else is an error, as
// a forgotten call should be.

import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { ETCD_LABEL, forgetNode, nodesShown } from './node-object.mjs';
import { ApiError, resourceOf } from './store.mjs';

const RESOURCES = {
  node: 'nodes',
  nodes: 'nodes',
  pods: 'pods',
  secret: 'secrets',
  namespace: 'namespaces',
  configmaps: 'configmaps',
  'leases.coordination.k8s.io': 'leases',
};
const KINDS = { Lease: 'leases', ConfigMap: 'configmaps', Pod: 'pods', Secret: 'secrets' };

/** What kubectl itself refuses. */
export class UsageError extends Error {}

/** Words by themselves, and options; all others have their value behind a `=`. */
const VALUED = ['-f', '-o', '--patch'];
function read(args) {
  const words = [];
  const options = {};
  for (let i = 0; i < args.length; i++) {
    const word = args[i];
    if (VALUED.includes(word)) options[word] = args[++i];
    else if (word.startsWith('--')) {
      const [name, ...value] = word.split('=');
      options[name] = value.join('=');
    } else words.push(word);
  }
  return { words, options };
}

/** The text of the answer. Throws ApiError, or an error for what is not played. `raw` answers `get --raw PATH`. */
export async function kubectl(store, args, input, raw) {
  if (args[0] === 'get' && args[1] === '--raw') return raw(args[2]);
  const { words, options } = read(args);
  const [verb, word, name] = words;
  switch (verb) {
    case 'create':
    case 'replace':
      return JSON.stringify(await write(store, verb, JSON.parse(input)));
    case 'cordon':
    case 'uncordon':
      await node(store, word, (each) => {
        if (verb === 'cordon') each.spec.unschedulable = true;
        else delete each.spec.unschedulable;
      });
      return `node/${word} ${verb}ed\n`;
    case 'drain':
      return drain(store, word, options);
    case 'annotate':
      await node(store, name, (each) => mark(each.metadata.annotations, words.slice(3), '--overwrite' in options));
      return `node/${name} annotated\n`;
    case 'label':
      await node(store, name, (each) => mark(each.metadata.labels, words.slice(3), '--overwrite' in options));
      return `node/${name} labeled\n`;
    case 'patch':
      if (options['--type'] !== 'merge') break;
      await node(store, name, (each) => merge(each, JSON.parse(options['--patch'])));
      return `node/${name} patched\n`;
    case 'get':
      return get(store, RESOURCES[word], name, options);
    case 'delete':
      return remove(store, RESOURCES[word], name, options);
  }
  throw new Error(`the stand-in kubectl does not know: ${args.join(' ')}`);
}

async function get(store, kind, name, options) {
  if (kind === 'nodes' && name === undefined && options['-o']?.startsWith('jsonpath=')) {
    return byJsonPath(await nodesShown(store), options['-o']);
  }
  if (kind === undefined || options['-o'] !== 'json') throw new Error('the stand-in kubectl gets known kinds as JSON');
  if (kind === 'nodes' && name === undefined) return list(await nodesShown(store));
  if (kind === 'pods' && name === undefined) return list(await pods(store, options));
  const found =
    kind === 'nodes'
      ? ((await nodesShown(store)).find((each) => each.metadata.name === name) ?? null)
      : await store.get(kind, options['--namespace'] ?? '', name);
  if (found !== null) return JSON.stringify(found);
  if ('--ignore-not-found' in options) return '';
  throw new ApiError('NotFound', `${resourceOf(kind)} "${name}" not found`);
}

/** Lists by the one form of template that fleet-role asks with: a kind, a range with tabs between its fields, an end. */
function byJsonPath(items, template) {
  const range = /^jsonpath=\{\.kind\}\{"\\n"\}\{range \.items\[\*\]\}(.*)\{"\\n"\}\{end\}end\{"\\n"\}$/.exec(template);
  if (range === null) throw new Error(`the stand-in kubectl does not know the template ${template}`);
  const paths = range[1].split('{"\\t"}').map((field) => field.slice(1, -1));
  const lines = items.map((item) => paths.map((path) => printed(at(item, path))).join('\t'));
  return ['List', ...lines, 'end', ''].join('\n');
}

function at(item, path) {
  let found = [item];
  for (const [, key, type] of path.matchAll(/\.((?:\\.|[^.[\\])+)(?:\[\?\(@\.type=="(\w+)"\)\])?/g)) {
    found = found.flatMap((each) => each?.[key.replaceAll('\\', '')] ?? []);
    if (type !== undefined) found = found.filter((each) => each.type === type);
  }
  return found;
}

const printed = (found) =>
  found.map((each) => (typeof each === 'object' ? JSON.stringify(each) : String(each))).join(' ');

const list = (items) => JSON.stringify({ apiVersion: 'v1', kind: 'List', items });

async function pods(store, options) {
  const [field, value] = (options['--field-selector'] ?? '').split('=');
  const [label, wanted] = (options['--selector'] ?? '').split('=');
  return (await store.list('pods')).filter(
    (pod) =>
      (field !== 'spec.nodeName' || pod.spec?.nodeName === value) &&
      (field !== 'metadata.name' || pod.metadata.name === value) &&
      (label === '' ||
        (wanted === undefined ? label in (pod.metadata.labels ?? {}) : pod.metadata.labels?.[label] === wanted)),
  );
}

/** Evicts at once: no pod here takes its time. A daemon's pod stays, and what needs a flag needs it here. */
async function drain(store, name, options) {
  await node(store, name, (each) => {
    each.spec.unschedulable = true;
  });
  const owner = (pod) => pod.metadata.ownerReferences?.[0]?.kind;
  const there = (await store.list('pods')).filter((pod) => pod.spec?.nodeName === name);
  const evicted = there.filter((pod) => owner(pod) !== 'DaemonSet');
  const cannot = (what, flag) => new UsageError(`unable to drain node "${name}": cannot delete ${what} (use ${flag})`);
  if (evicted.length < there.length && !('--ignore-daemonsets' in options)) {
    throw cannot('DaemonSet-managed Pods', '--ignore-daemonsets to ignore');
  }
  if (evicted.some((pod) => owner(pod) === undefined) && !('--force' in options)) {
    throw cannot('Pods that declare no controller', '--force to override');
  }
  for (const pod of evicted) await store.delete('pods', pod.metadata.namespace, pod.metadata.name);
  return `node/${name} drained\n`;
}

async function write(store, verb, object) {
  const kind = KINDS[object.kind];
  if (kind === undefined) throw new Error(`the stand-in kubectl writes no ${object.kind}`);
  const { namespace = 'default', name } = object.metadata;
  try {
    checkTimes(object);
    return await (verb === 'create' ? create : replace)(store, kind, namespace, name, object);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    throw new ApiError(
      error.reason,
      error.said,
      `error when ${verb === 'create' ? 'creating' : 'replacing'} "STDIN": `,
    );
  }
}

function create(store, kind, namespace, name, object) {
  if (object.metadata.resourceVersion) {
    throw new ApiError('Invalid', `${name}: resourceVersion should not be set on objects to be created`);
  }
  const metadata = { ...object.metadata, namespace, uid: randomUUID() };
  return store.put(kind, { ...object, metadata }, '0');
}

/** Without a resourceVersion it replaces whatever is there; a replace that changes nothing makes no new version. */
async function replace(store, kind, namespace, name, object) {
  const now = await store.get(kind, namespace, name);
  if (now === null) throw new ApiError('NotFound', `${resourceOf(kind)} "${name}" not found`);
  const version = object.metadata.resourceVersion ?? now.metadata.resourceVersion;
  const next = {
    ...object,
    metadata: { ...object.metadata, namespace, uid: now.metadata.uid, resourceVersion: version },
  };
  return isDeepStrictEqual(next, now) ? now : store.put(kind, next, version);
}

/** The API takes a Lease's times with six digits only. */
function checkTimes({ kind, spec }) {
  if (kind !== 'Lease') return;
  for (const time of [spec?.acquireTime, spec?.renewTime]) {
    if (time == null || /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/.test(time)) continue;
    throw new ApiError('BadRequest', `Lease in version "v1" cannot be handled as a Lease: parsing time "${time}"`);
  }
}

async function remove(store, kind, name, options) {
  if (kind === undefined) throw new Error('the stand-in kubectl deletes known kinds');
  const namespace = kind === 'nodes' ? '' : (options['--namespace'] ?? 'default');
  const found = await store.get(kind, namespace, name);
  if (found === null) {
    if ('--ignore-not-found' in options) return '';
    throw new ApiError('NotFound', `${resourceOf(kind)} "${name}" not found`);
  }
  // A server's Node waits for the controller that removes its member (3.10).
  if (kind !== 'nodes') await store.delete(kind, namespace, name);
  else if (found.metadata.labels[ETCD_LABEL] === undefined) await forgetNode(store, name);
  else {
    await node(store, name, (each) => {
      each.metadata.deletionTimestamp = new Date().toISOString();
    });
  }
  return `${kind} "${name}" deleted\n`;
}

async function node(store, name, change) {
  const found = await store.update('nodes', '', name, (each) => {
    change(each);
    return each;
  });
  if (found === null) throw new ApiError('NotFound', `nodes "${name}" not found`);
}

function mark(marks, changes, overwrite) {
  for (const change of changes) {
    const [key, ...rest] = change.split('=');
    const value = rest.join('=');
    if (rest.length === 0 && key.endsWith('-')) delete marks[key.slice(0, -1)];
    else if (key in marks && marks[key] !== value && !overwrite) {
      throw new UsageError(`'${key}' already has a value (${marks[key]}), and --overwrite is false`);
    } else marks[key] = value;
  }
}

/** A JSON merge patch: null takes away, objects are merged, everything else replaces. */
function merge(target, patch) {
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete target[key];
    else if (typeof value !== 'object' || Array.isArray(value)) target[key] = value;
    else {
      if (typeof target[key] !== 'object' || target[key] === null) target[key] = {};
      merge(target[key], value);
    }
  }
}
