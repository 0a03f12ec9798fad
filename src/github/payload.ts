import { UserError } from '../errors.js';

/** A webhook payload, read from `unknown` field by field: what is missing is the event's fault and says so. */
export class Payload {
  private readonly event: string;
  private readonly value: unknown;

  constructor(event: string, value: unknown) {
    this.event = event;
    this.value = value;
  }

  has(path: string): boolean {
    const value = this.at(path);
    return value !== undefined && value !== null;
  }

  /** The text at `path` (names with dots between); null when it is missing, null, empty, or no text. */
  optionalText(path: string): string | null {
    const value = this.at(path);
    return typeof value === 'string' && value !== '' ? value : null;
  }

  text(path: string): string {
    return this.optionalText(path) ?? this.missing(path, 'a text');
  }

  /** A commit's SHA, the one of zeros included. */
  commit(path: string): string {
    const sha = this.optionalText(path);
    return sha !== null && /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(sha) ? sha : this.missing(path, 'a commit SHA');
  }

  number(path: string): number {
    const value = this.at(path);
    return typeof value === 'number' && Number.isSafeInteger(value) ? value : this.missing(path, 'a number');
  }

  flag(path: string): boolean {
    return this.at(path) === true;
  }

  private at(path: string): unknown {
    let value = this.value;
    for (const name of path.split('.')) {
      if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
      value = (value as Record<string, unknown>)[name];
    }
    return value;
  }

  private missing(path: string, what: string): never {
    throw new UserError(
      `The payload of the event ${this.event} has no ${path} that is ${what}: GITHUB_EVENT_PATH must name the file that GitHub wrote for this run.`,
    );
  }
}
