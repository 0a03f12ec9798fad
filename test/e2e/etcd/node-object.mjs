// Nodes and their passwords: what k3s and the kubelet write when a node starts, and what they say while it lives.

import { createHash, randomUUID } from 'node:crypto';
import { ANNOTATION, ENDPOINT, HEARTBEAT_GRACE, LABEL, VERSION } from './settings.mjs';
import { ApiError } from './store.mjs';

export const ETCD_LABEL = `${LABEL}/etcd`;
export const MEMBER_NAME = `${ANNOTATION}/node-name`;
export const MEMBER_ADDRESS = `${ANNOTATION}/node-address`;
export const REMOVE = `${ANNOTATION}/remove`;
export const REMOVED_NAME = `${ANNOTATION}/removed-node-name`;

/**
 * Makes the Node or brings it up to date. Labels and annotations that are there stay (3.5); `labels` and `annotations`
 * come on top.
 */
export async function registerNode(store, { name, address, labels = {}, annotations = {} }) {
  const status = {
    addresses: [
      { type: 'InternalIP', address },
      { type: 'Hostname', address: name },
    ],
    nodeInfo: { kubeletVersion: VERSION },
  };
  if ((await store.get('nodes', '', name)) === null) {
    const metadata = { name, uid: randomUUID(), labels: { 'kubernetes.io/hostname': name }, annotations: {} };
    const node = { apiVersion: 'v1', kind: 'Node', metadata, spec: {}, status: { ...status, conditions: [] } };
    await store.put('nodes', node, '0').catch((error) => {
      if (error.reason !== 'AlreadyExists') throw error;
    });
  }
  await store.update('nodes', '', name, (node) => {
    Object.assign(node.metadata.labels, labels);
    Object.assign(node.metadata.annotations, annotations);
    Object.assign(node.status, status);
    return node;
  });
}

/** A running server puts its labels and annotations back on its Node, where there is one (3.5). */
export async function keepMarks(store, name, labels, annotations) {
  await store.update('nodes', '', name, (node) => {
    Object.assign(node.metadata.labels, labels);
    Object.assign(node.metadata.annotations, annotations);
    return node;
  });
}

/** The Node's kubelet lives. */
export const beat = (store, name) => sign(store, 'heartbeats', name);

/** The API of a server at this address answers. */
export const serves = (store, address) => sign(store, 'endpoints', address);

/** The addresses of the servers whose API answers (5.1, 5.7). */
export async function endpoints(store) {
  const all = await store.list('endpoints');
  return all.filter((each) => Date.now() - each.time < ENDPOINT).map((each) => each.metadata.name);
}

async function sign(store, kind, name) {
  await store.put(kind, { metadata: { name }, time: Date.now() }, null).catch((error) => {
    if (!(error instanceof ApiError)) throw error;
  });
}

/** The Nodes as the API shows them: with the Ready condition, which is False once nothing was heard for too long. */
export async function nodesShown(store) {
  const [nodes, beats] = await Promise.all([store.list('nodes'), store.list('heartbeats')]);
  const heard = new Map(beats.map((each) => [each.metadata.name, each.time]));
  return nodes.map((node) => {
    const ready = Date.now() - (heard.get(node.metadata.name) ?? 0) < HEARTBEAT_GRACE;
    const condition = { type: 'Ready', status: ready ? 'True' : 'Unknown' };
    return { ...node, status: { ...node.status, conditions: [...node.status.conditions, condition] } };
  });
}

const secretOf = (node) => `${node.toLowerCase()}.node-password.k3s`;
const hash = (password) => createHash('sha256').update(password).digest('hex');

/** Whether the node's password is the one that the cluster knows; an unknown node's is kept from now on (4.1). */
export async function checkPassword(store, node, password) {
  const name = secretOf(node);
  const known = await store.get('secrets', 'kube-system', name);
  if (known !== null) return known.data.hash === hash(password);
  const secret = {
    ...{ apiVersion: 'v1', kind: 'Secret', type: 'k3s.cattle.io/node-password' },
    metadata: { name, namespace: 'kube-system' },
    data: { hash: hash(password) },
  };
  await store.put('secrets', secret, '0');
  return true;
}

/** Deletes a Node; its password goes with it (3.12). */
export async function forgetNode(store, name) {
  await store.delete('nodes', '', name);
  await store.delete('heartbeats', '', name);
  await store.delete('secrets', 'kube-system', secretOf(name));
}
