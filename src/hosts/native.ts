import { unknown } from '../plan/observation.js';
import type { HostRuntime } from './runtime.js';

/** systemd units. Not looked at yet: its services are unknown, which is never absent or equal. */
export const native: HostRuntime = {
  parts: ['native'],
  data: () => [],
  reject: () => null,
  override: () => ({ placed: 'absent', listed: false }),
  services: (answer) => unknown(answer.get('services') ?? 'native hosts are not looked at yet'),
};
