// An agent: registers its Node through any server that it knows, and says that it lives.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { DATA, fatal, HEARTBEAT, log, RETRY, sleep } from './settings.mjs';
import { askServer } from './supervisor.mjs';

const BALANCER = `${DATA}/agent/etc/k3s-agent-load-balancer.json`;

/** Runs an agent until the process ends. */
export async function runAgent({ name, address, url, token, password }) {
  if (url === '') fatal('--server is required');
  if (token === '') fatal('--token is required');
  process.once('SIGTERM', () => process.exit(0));
  const servers = new Servers(url, token);
  for (;;) {
    try {
      servers.learn(await servers.ask('/v1-k3s/node', { name, address, password }));
      break;
    } catch (error) {
      // For ever, a refused password included (4.4).
      log(`waits to be an agent: ${error.message}`);
      await sleep(RETRY);
    }
  }
  log('k3s agent is up and running');
  for (;;) {
    await sleep(HEARTBEAT);
    await servers.ask('/v1-k3s/heartbeat', { name }).then(
      (text) => servers.learn(text),
      (error) => log(error.message),
    );
  }
}

/** The agent's own list of servers: that of the URL, and those that it has been told of (5.1). */
class Servers {
  #url;
  #token;
  #addresses;
  /** Who answered last is asked first: one that is gone costs its whole timeout. */
  #last = null;

  constructor(url, token) {
    this.#url = url;
    this.#token = token;
    this.#addresses = known(url);
  }

  /** Asks one after the other. A refusal is an answer. */
  async ask(path, body) {
    const all = [this.#url, ...this.#addresses.map((address) => `https://${address}`)];
    let failure;
    for (const each of new Set(all.includes(this.#last) ? [this.#last, ...all] : all)) {
      try {
        const answer = await askServer(each, this.#token, path, body);
        this.#last = each;
        return answer;
      } catch (error) {
        if (error.status === 401 || error.status === 403) throw error;
        failure = error;
      }
    }
    throw failure;
  }

  /** Keeps the servers' own list, on disk too. An empty one tells nothing. */
  learn(text) {
    const found = JSON.parse(text);
    if (found.length === 0 || JSON.stringify(found) === JSON.stringify(this.#addresses)) return;
    this.#addresses = found;
    mkdirSync(`${DATA}/agent/etc`, { recursive: true });
    writeFileSync(BALANCER, JSON.stringify({ ServerURL: this.#url, ServerAddresses: found }));
  }
}

/** The servers known from the last run, unless the URL is another (5.2). */
function known(url) {
  try {
    const { ServerURL, ServerAddresses } = JSON.parse(readFileSync(BALANCER, 'utf8'));
    return ServerURL === url ? ServerAddresses : [];
  } catch {
    return [];
  }
}
