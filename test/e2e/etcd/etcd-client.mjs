// etcd's HTTP/JSON gateway, as etcd 3.4 has it: numbers of 64 bits are strings, keys and values base64.

const OWN = 'http://127.0.0.1:2379';
const encode = (text) => Buffer.from(text).toString('base64');
const decode = (text) => Buffer.from(text ?? '', 'base64').toString();

/** Asks this server's etcd, or the one at `url`; throws with etcd's own words. */
export async function ask(path, body = {}, timeout = 4000, url = OWN) {
  let response;
  let text;
  try {
    response = await fetch(`${url}/v3/${path}`, {
      method: 'POST',
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(timeout),
    });
    text = await response.text();
  } catch (error) {
    // Nobody waits longer than this for a leader or a quorum.
    if (error.name === 'TimeoutError') throw new Error('etcdserver: request timed out');
    throw new Error(`etcd at ${url}: ${error.cause?.code ?? error.message}`);
  }
  if (!response.ok) throw new Error(JSON.parse(text).error ?? text);
  return text;
}

const json = async (...args) => JSON.parse(await ask(...args));

/** `leader`, and `header.member_id`: who is asked; `raftIndex`: how far it has come. */
export const status = (url) => json('maintenance/status', {}, 2000, url);
/** Asks the leader at `url` to hand over to another voter. */
export const moveLeader = (url, id) => json('maintenance/transfer-leadership', { targetID: id }, 4000, url);

/** The members as etcd tells them, the numbers as strings. */
export async function members() {
  return (await json('cluster/member/list')).members.map((member) => ({
    id: member.ID,
    name: member.name ?? '',
    peerUrls: member.peerURLs ?? [],
    clientUrls: member.clientURLs ?? [],
    learner: member.isLearner === true,
  }));
}

export const addLearner = (peerUrl) => json('cluster/member/add', { peerURLs: [peerUrl], isLearner: true });
export const promote = (id) => json('cluster/member/promote', { ID: id });
/** etcd itself waits for a quorum. */
export const remove = (id) => json('cluster/member/remove', { ID: id }, 10_000);

/** A snapshot of the whole datastore. */
export async function snapshot() {
  const lines = (await ask('maintenance/snapshot', {}, 30_000)).trim().split('\n');
  return Buffer.concat(lines.map((line) => Buffer.from(JSON.parse(line).result.blob ?? '', 'base64')));
}

/** What the datastore of a cluster must be able to do. Versions are etcd's mod_revision. */
export const etcdBackend = {
  /** Entries whose key begins with `prefix`. */
  async range(prefix) {
    const end = prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1);
    const { kvs = [] } = await json('kv/range', { key: encode(prefix), range_end: encode(end) });
    return kvs.map((kv) => ({ key: decode(kv.key), value: decode(kv.value), version: kv.mod_revision }));
  },
  /** Puts (null: deletes) where the entry's version is still `version`, '0' for none. The new version, or null. */
  async put(key, value, version) {
    const success =
      value === null
        ? { requestDeleteRange: { key: encode(key) } }
        : { requestPut: { key: encode(key), value: encode(value) } };
    const compare = [{ key: encode(key), target: 'MOD', result: 'EQUAL', mod_revision: version }];
    const done = await json('kv/txn', { compare, success: [success] });
    return done.succeeded === true ? done.header.revision : null;
  },
};
