import type { Value } from './inventory.js';

/**
 * A value as Python has it inside Ansible, before templates: what JSON-like values cannot tell apart (1.0 from 1, a
 * text that must not be templated, an encrypted text, keys that are no texts) is kept apart here.
 */
export type Raw =
  | null
  | boolean
  | number
  | string
  | bigint
  | PyFloat
  | Unsafe
  | Vaulted
  | readonly Raw[]
  | ReadonlyMap<Key, Raw>;

/** A key of a mapping; a float key is its number. */
export type Key = null | boolean | number | string;

/** A number that is a float in Python, whole or not. */
export class PyFloat {
  readonly number: number;

  constructor(number: number) {
    this.number = number;
  }
}

/** A text tagged `!unsafe`: never a template. */
export class Unsafe {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A text encrypted with Ansible Vault: the envelope, header line and all. */
export class Vaulted {
  readonly envelope: string;

  constructor(envelope: string) {
    this.envelope = envelope;
  }
}

/** What is shown in place of an encrypted text that is not needed. */
const VAULTED_TEXT = '<encrypted>';

/** What was converted before: aliases and shared variables stay shared. */
const converted = new WeakMap<object, Value>();

/** The value for the rest of fleet-role; templates are left as they are written. */
export function toValue(raw: Raw): Value {
  if (raw === null || typeof raw === 'boolean' || typeof raw === 'number' || typeof raw === 'string') return raw;
  if (typeof raw === 'bigint') return raw.toString();
  if (raw instanceof PyFloat) return raw.number;
  if (raw instanceof Unsafe) return raw.text;
  if (raw instanceof Vaulted) return VAULTED_TEXT;
  const known = converted.get(raw);
  if (known !== undefined) return known;
  let value: Value;
  if (isMapping(raw)) value = Object.fromEntries([...raw].map(([key, item]) => [keyText(key), toValue(item)]));
  else value = raw.map(toValue);
  converted.set(raw, value);
  return value;
}

/** Tells a mapping from the other values. */
export function isMapping(raw: Raw): raw is ReadonlyMap<Key, Raw> {
  return raw instanceof Map;
}

/** A key as JSON writes it. */
export function keyText(key: Key): string {
  return typeof key === 'string' ? key : String(key);
}

/** The word for the type of a value in messages. */
export function typeWord(raw: Raw): string {
  if (raw === null) return 'nothing';
  if (typeof raw === 'boolean') return 'a true/false value';
  if (typeof raw === 'number' || typeof raw === 'bigint' || raw instanceof PyFloat) return 'a number';
  if (isMapping(raw)) return 'a mapping';
  if (Array.isArray(raw)) return 'a list';
  return 'a text';
}
