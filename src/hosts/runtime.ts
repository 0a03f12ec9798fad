import type { Host, Runtime, Service } from '../fleet/fleet.js';
import type { Known, OverrideObservation, ServiceObservation } from '../plan/observation.js';
import { compose } from './compose.js';
import { native } from './native.js';
import type { Answer, DataLine } from './script.js';

/** What a runtime adds to the host script, and how its part of the answer is read. A new runtime is one more of these. */
export interface HostRuntime {
  /** The parts of `hosts/script/` that are its own. They define runtime_paths, runtime_look and runtime_step. */
  readonly parts: readonly string[];
  /** Its lines of the script's data; `seconds` bounds each question to the program that runs the services. */
  data(host: Host, seconds: number): readonly DataLine[];
  /** Why this host cannot be asked, before anything is sent; null when it can. */
  reject(host: Host): string | null;
  override(answer: Answer): OverrideObservation;
  /** The services; `roleDirectories` are the paths by which its role directory is known there. */
  services(
    answer: Answer,
    host: Host,
    roleDirectories: readonly string[],
  ): Known<{ readonly [S in Service]: ServiceObservation }>;
}

const RUNTIMES: { readonly [R in Runtime]: HostRuntime } = { compose, native };

/** How k3s runs on this host. */
export function runtimeOf(host: Host): HostRuntime {
  return RUNTIMES[host.runtime];
}
