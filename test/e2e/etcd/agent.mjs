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
  let addresses = known(url);
  for (;;) {
    try {
      const found = JSON.parse(await any(url, addresses, token, '/v1-k3s/node', { name, address, password }));
      if (found.length > 0) addresses = found;
      keep(url, addresses);
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
    await any(url, addresses, token, '/v1-k3s/heartbeat', { name }).catch((error) => log(error.message));
  }
}

/** The server of the URL, then the others (5.1). A refusal is an answer. */
async function any(url, addresses, token, path, body) {
  let failure;
  for (const each of [url, ...addresses.map((address) => `https://${address}`)]) {
    try {
      return await askServer(each, token, path, body);
    } catch (error) {
      if (error.status === 401 || error.status === 403) throw error;
      failure = error;
    }
  }
  throw failure;
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

function keep(url, addresses) {
  mkdirSync(`${DATA}/agent/etc`, { recursive: true });
  writeFileSync(BALANCER, JSON.stringify({ ServerURL: url, ServerAddresses: addresses }));
}
