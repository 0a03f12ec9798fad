import type { Value } from './inventory/inventory.js';

// Rather one harmless value too many: who needs it can read the inventory.
const SECRET_NAME = /pass|pwd|secret|token|key|credential|vault|auth|private/i;

const SECRET_WORD = 'pass|pwd|secret|token|credential|(?:api|private|access|signing|encryption)[_-]?key';
const SECRET_TEXTS: readonly RegExp[] = [
  // A key in PEM.
  /-----BEGIN/,
  // User and password in a URL.
  /:\/\/[^\s/@]*:[^\s/@]*@/,
  // An option and its value: --token abc.
  new RegExp(`(?:^|\\s)--?[\\w-]*(?:${SECRET_WORD})[\\w-]*[=\\s]+\\S`, 'i'),
  // An assignment: K3S_TOKEN=abc, password: abc.
  new RegExp(`(?:${SECRET_WORD})\\w*["']?\\s*[=:]\\s*\\S`, 'i'),
];

/** Whether a variable of this name holds a password, a token, a key or the like. */
export function looksSecret(name: string): boolean {
  return SECRET_NAME.test(name);
}

/** Whether a value holds what looks like a secret: a text of such a form, or a key of such a name anywhere inside. */
export function hidesSecret(value: Value): boolean {
  if (typeof value === 'string') return SECRET_TEXTS.some((form) => form.test(value));
  if (typeof value !== 'object' || value === null) return false;
  if (Array.isArray(value)) return value.some(hidesSecret);
  return Object.entries(value).some(([key, inner]) => looksSecret(key) || hidesSecret(inner));
}

/** A value in one text: a text as it is, anything else as JSON. */
export function shownText(value: Value): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
