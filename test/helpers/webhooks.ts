import { createRequire } from 'node:module';
import { Ajv, type ValidateFunction } from 'ajv';
import * as formats from 'ajv-formats';

// GitHub's own examples of webhook payloads, and the schemas that it publishes for them.

// biome-ignore lint/suspicious/noExplicitAny: JSON that the schemas describe
type Json = any;

const load = createRequire(import.meta.url);

interface Published {
  readonly name: string;
  readonly examples: readonly Json[];
}

let published: readonly Published[] | null = null;

/** A copy of the first published example of an event that `is` takes and that keeps to today's schema. */
export function exampleOf(event: string, is: (payload: Json) => boolean = () => true): Json {
  published ??= load('@octokit/webhooks-examples') as readonly Published[];
  const found = published
    .find(({ name }) => name === event)
    ?.examples.find((one) => is(one) && (webhookProblems(event, one)?.length ?? 1) === 0);
  if (found === undefined) throw new Error(`GitHub publishes no such example of ${event}`);
  return structuredClone(found);
}

const validators = new Map<string, ValidateFunction>();

/**
 * What GitHub's published schema has against a payload of an event; empty when it is as GitHub sends it, null where
 * GitHub publishes none (`schedule` is no webhook). `action` chooses among the schemas of one event.
 */
export function webhookProblems(event: string, payload: Json): readonly string[] | null {
  const schema = load('@octokit/webhooks-schemas') as { readonly definitions: Readonly<Record<string, Json>> };
  const name = `${event}$${payload.action ?? 'event'}`;
  if (schema.definitions[name] === undefined) return null;
  let validate = validators.get(name);
  if (validate === undefined) {
    const ajv = new Ajv({ strict: false, allErrors: true });
    formats.default.default(ajv);
    validate = ajv.compile({ definitions: schema.definitions, $ref: `#/definitions/${name}` });
    validators.set(name, validate);
  }
  if (validate(payload)) return [];
  return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath}: ${message}`);
}
