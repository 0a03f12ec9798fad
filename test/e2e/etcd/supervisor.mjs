// k3s's own port: what other nodes ask of a server, and kubectl's questions from within the container.

import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import * as etcd from './etcd-client.mjs';
import { kubectl, UsageError } from './kubectl.mjs';
import { beat, checkPassword, endpoints, registerNode } from './node-object.mjs';
import { log, SERVER, sleep } from './settings.mjs';
import { ApiError } from './store.mjs';

const PORT = 6443;

/** Asks a server's port as another node does. Throws with `status` (0: no answer) and the server's words. */
export async function askServer(url, token, path, body = null) {
  const authorization = `Bearer ${token}`;
  const target = new URL(path, url.replace(/^https:/, 'http:'));
  let response;
  try {
    response = await fetch(target, {
      ...(body === null ? {} : { method: 'POST', body: JSON.stringify(body) }),
      headers: { authorization },
      signal: AbortSignal.timeout(6000),
    });
  } catch (error) {
    throw Object.assign(new Error(`${url}: ${error.cause?.code ?? error.message}`), { status: 0 });
  }
  const text = await response.text();
  if (!response.ok) throw Object.assign(new Error(text), { status: response.status });
  return text;
}

class HttpError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** What a server tells: `server` has `token`, `name`, `store` (null until there is one) and `datastore`. */
export class Supervisor {
  #server;

  constructor(server) {
    this.#server = server;
    createServer((request, response) => {
      this.#answer(request).then(
        (text) => response.end(text),
        (error) => {
          response.statusCode = error.status ?? 503;
          response.end(error.message);
        },
      );
    }).listen(PORT);
  }

  async #answer(request) {
    const local = ['127.0.0.1', '::ffff:127.0.0.1', '::1'].includes(request.socket.remoteAddress);
    const body = await bodyOf(request);
    if (request.url === '/stand-in/kubectl' && local) return this.#kubectl(body);
    if (request.url === '/ping') return 'pong';
    if (!local && request.headers.authorization !== `Bearer ${this.#server.token}`) {
      throw new HttpError(401, 'not authorized');
    }
    switch (request.url) {
      case '/db/info':
        return this.#members();
      case '/v1-k3s/member':
        return this.#addMember(JSON.parse(body));
      case '/v1-k3s/node':
        return this.#node(JSON.parse(body));
      case '/v1-k3s/heartbeat':
        await beat(this.#store(), JSON.parse(body).name);
        return this.#endpoints();
      default:
        throw new HttpError(404, 'not found');
    }
  }

  #store() {
    if (this.#server.store === null) throw new HttpError(503, 'the API is not up yet');
    return this.#server.store;
  }

  /** The member list as k3s writes it: the ids are bare numbers (6.3), and what is false is left out. */
  async #members() {
    if (this.#server.datastore === 'sqlite') throw new HttpError(400, 'etcd datastore disabled');
    // k3s asks for a list that a quorum stands behind; the gateway of etcd 3.4 gives any.
    await etcd.etcdBackend.range('/registry/namespaces/');
    const members = (await etcd.members()).map((member) => {
      const rest = {
        ...(member.name === '' ? {} : { name: member.name }),
        peerURLs: member.peerUrls,
        ...(member.clientUrls.length === 0 ? {} : { clientURLs: member.clientUrls }),
        ...(member.learner ? { isLearner: true } : {}),
      };
      return `{"ID":${member.id},${JSON.stringify(rest).slice(1)}`;
    });
    return `{"members":[${members.join(',')}]}`;
  }

  async #addMember({ peerUrl }) {
    if (this.#server.datastore === 'sqlite') throw new HttpError(400, 'etcd datastore disabled');
    this.#store();
    await etcd.addLearner(peerUrl);
    return '';
  }

  /** An agent starts: its password is checked before anything else (4.4). Tells all servers' addresses (5.1). */
  async #node({ name, address, password }) {
    const store = this.#store();
    if (!(await checkPassword(store, name, password))) {
      throw new HttpError(
        403,
        `Node password rejected, duplicate hostname or contents of '/etc/rancher/node/password' may not match server node-passwd entry, try enabling a unique node name with the --with-node-id flag`,
      );
    }
    await registerNode(store, { name, address });
    await beat(store, name);
    return this.#endpoints();
  }

  async #endpoints() {
    return JSON.stringify((await endpoints(this.#store())).map((address) => `${address}:${PORT}`));
  }

  /** The answer to one kubectl: an exit status on a line, and what kubectl says. */
  async #kubectl(body) {
    const [count, ...lines] = body.split('\n');
    const args = lines.slice(0, Number(count));
    const input = lines.slice(Number(count)).join('\n');
    // As kubectl itself gives up; what it asked for may be done all the same.
    const seconds = Number(/^--request-timeout=(\d+)s$/m.exec(args.join('\n'))?.[1] ?? 0);
    const late =
      '1\nUnable to connect to the server: net/http: request canceled (Client.Timeout exceeded while awaiting headers)\n';
    const answer = this.#answerKubectl(args, input);
    return seconds === 0 ? answer : Promise.race([answer, sleep(seconds * 1000).then(() => late)]);
  }

  async #answerKubectl(args, input) {
    try {
      if (args[0] === 'etcd-snapshot') return `0\n${await this.#snapshot(args)}`;
      if (this.#server.store === null)
        throw new ApiError('ServiceUnavailable', 'the server is currently unable to handle the request');
      return `0\n${await kubectl(this.#server.store, args, input, (path) => this.#raw(path))}`;
    } catch (error) {
      if (error instanceof UsageError) return `1\nerror: ${error.message}\n`;
      if (!(error instanceof ApiError)) log(`kubectl ${args.join(' ')}: ${error.message}`);
      const said = error instanceof ApiError ? error.message : `Error from server (InternalError): ${error.message}`;
      return `1\n${said}\n`;
    }
  }

  async #raw(path) {
    switch (path) {
      case '/readyz':
        await this.#server.store.get('namespaces', '', 'kube-system');
        return 'ok';
      case '/ping':
        return 'pong';
      case '/db/info':
        return this.#members().catch((error) => {
          throw new ApiError(error.status === 400 ? 'BadRequest' : 'InternalError', error.message);
        });
      default:
        throw new ApiError('NotFound', 'the server could not find the requested resource');
    }
  }

  async #snapshot(args) {
    if (args[1] !== 'save' || args[2] !== '--name') throw new Error(`${args.join(' ')} is not played`);
    if (this.#server.datastore === 'sqlite') throw new Error('etcd datastore disabled');
    const file = `${SERVER}/db/snapshots/${args[3]}-${this.#server.name}-${Math.floor(Date.now() / 1000)}`;
    const content = await etcd.snapshot();
    mkdirSync(`${SERVER}/db/snapshots`, { recursive: true });
    writeFileSync(file, content);
    return `Snapshot ${file} saved.\n`;
  }
}

async function bodyOf(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts).toString();
}
