import type { DesiredHost, SeenWorld } from '../desired.js';
import type { Refusal } from '../step.js';

/** One rule, asked of one host: the reasons against doing anything there; none when the host may be acted on. */
export type HostRule = (world: SeenWorld, entry: DesiredHost) => readonly Refusal[];

export function refuse(code: Refusal['code'], entry: DesiredHost, message: string): readonly Refusal[] {
  return [{ code, message, hosts: [entry.host.name] }];
}
