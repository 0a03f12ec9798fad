import type { HostConnection } from '../../src/fleet/fleet.js';
import type { Logger } from '../../src/log.js';

/** A logger that says nothing. */
export const silentLogger: Logger = {
  debug: () => {},
  info: () => {},
  notice: () => {},
  warning: () => {},
  error: () => {},
  group: (_name, work) => work(),
};

/** A connection to this machine. */
export const LOCAL: HostConnection = {
  ...{ type: 'local', host: 'localhost', port: 22, user: null, become: false, keyFile: null, options: [] },
};
