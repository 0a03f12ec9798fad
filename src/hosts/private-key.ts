import { UserError } from '../errors.js';

const BLOCK = /-----BEGIN ([A-Z0-9 ]*PRIVATE KEY)-----\n([\s\S]*?)\n-----END \1-----/g;
const WAY_OUT = 'Give the whole text of each private key file, its BEGIN and END lines included.';

/**
 * The private keys of `text`, in order, each as a file that ssh accepts: LF line ends and a final newline. CRLF line
 * ends, indentation and a missing final newline are repaired; empty text has no keys.
 * Throws a UserError, which never shows the text, when something in it is no private key or has a passphrase.
 */
export function readPrivateKeys(text: string): string[] {
  const lines = text
    .replace(/^\uFEFF/, '')
    .split(/\r\n|\r|\n/)
    .map((line) => line.trim());
  const clean = lines.join('\n');
  const keys: string[] = [];
  let rest = clean;
  for (const match of clean.matchAll(BLOCK)) {
    const [block, kind = '', body = ''] = match;
    const number = keys.length + 1;
    checkBody(kind, body, number);
    keys.push(`${block}\n`);
    rest = rest.replace(block, '');
  }
  if (rest.trim() !== '') {
    const which = keys.length === 0 ? 'is not a private key' : 'holds something else beside its private keys';
    throw new UserError(`Input ssh-private-key ${which}. ${WAY_OUT}`);
  }
  return keys;
}

/** Throws when the body between the BEGIN and END lines cannot be a key that works without asking anybody. */
function checkBody(kind: string, body: string, number: number): void {
  const which = `Private key ${number} of input ssh-private-key`;
  const encrypted = `${which} has a passphrase, and nobody is there to type it. Use a key without one.`;
  // The old PEM form has header lines before an empty line; they are where it says that it is encrypted.
  if (kind.includes('ENCRYPTED') || /^Proc-Type:.*ENCRYPTED/m.test(body)) throw new UserError(encrypted);
  const data = body.replace(/^(?:[A-Za-z-]+:.*\n)+\n/, '').replace(/\n/g, '');
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(data)) throw new UserError(`${which} is damaged. ${WAY_OUT}`);
  if (kind !== 'OPENSSH PRIVATE KEY') return;
  // OpenSSH's own format: the magic, then the cipher's name as a length and text; "none" means no passphrase.
  const bytes = Buffer.from(data, 'base64');
  const magic = 'openssh-key-v1\0';
  if (bytes.subarray(0, magic.length).toString('latin1') !== magic || bytes.length < magic.length + 8) {
    throw new UserError(`${which} is damaged. ${WAY_OUT}`);
  }
  const length = bytes.readUInt32BE(magic.length);
  const cipher = bytes.subarray(magic.length + 4, magic.length + 4 + length).toString('latin1');
  if (cipher !== 'none') throw new UserError(encrypted);
}
