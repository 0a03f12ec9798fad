// k3s server|agent: reads what k3s reads of command line and environment, and starts that role.

import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { runAgent } from './agent.mjs';
import { runServer } from './server.mjs';
import { fatal } from './settings.mjs';

const [mode, ...args] = process.argv.slice(2);
// The name by which k3s's own processes are known.
process.title = `k3s ${mode}`;

const PASSWORD = '/etc/rancher/node/password';

/** The last value of an option on the command line, else of the environment, else ''. */
function option(name, variable) {
  let value = process.env[variable] ?? '';
  for (const [index, word] of args.entries()) {
    if (word === `--${name}`) value = args[index + 1] ?? '';
    else if (word.startsWith(`--${name}=`)) value = word.slice(name.length + 3);
  }
  return value;
}

function tokenGiven() {
  const file = option('token-file', 'K3S_TOKEN_FILE');
  const token = option('token', 'K3S_TOKEN');
  return (token || (file === '' ? '' : readFileSync(file, 'utf8'))).trim();
}

/** Per container, unless a test mounts one directory in both (4.2, 4.3). */
function nodePassword() {
  if (!existsSync(PASSWORD)) {
    mkdirSync('/etc/rancher/node', { recursive: true });
    writeFileSync(PASSWORD, randomBytes(16).toString('hex'), { mode: 0o600 });
  }
  return readFileSync(PASSWORD, 'utf8').trim();
}

const token = tokenGiven();
const options = {
  name: (option('node-name', 'K3S_NODE_NAME') || hostname()).toLowerCase(),
  address: option('node-ip', 'STAND_IN_ADDRESS'),
  url: option('server', 'K3S_URL'),
  token,
  hasToken: token !== '',
  clusterInit: args.includes('--cluster-init') || process.env.K3S_CLUSTER_INIT === 'true',
  password: nodePassword(),
};
console.log(`k3s ${mode} ${args.join(' ')}`);
const run = mode === 'server' ? runServer : runAgent;
run(options).catch((error) => fatal(error.stack));
