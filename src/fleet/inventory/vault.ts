import { createDecipheriv, createHmac, pbkdf2Sync, timingSafeEqual } from 'node:crypto';
import { ReadingError } from './text.js';

const HEADER = '$ANSIBLE_VAULT';
const ITERATIONS = 10_000;

/** Whether a file as a whole is encrypted with Ansible Vault. */
export function isVault(text: string): boolean {
  return text.startsWith(HEADER);
}

/**
 * The content of an Ansible Vault envelope (format 1.1 or 1.2): hex of `salt LF hmac LF ciphertext`, each hex again; keys
 * by PBKDF2-SHA256, AES-256-CTR with PKCS#7 padding, HMAC-SHA256 over the ciphertext.
 *
 * Throws a ReadingError (`vault-locked`) without place: its message follows the name of what is encrypted.
 */
export function decryptVault(envelope: string, password: string | null): Uint8Array {
  if (password === null || password === '') {
    return locked('is encrypted with Ansible Vault; give the input vault-password, or write the value in the open');
  }
  const [header = '', ...lines] = envelope.trim().split(/\r\n|[\n\r]/);
  const [magic, version, cipher] = header.split(';').map((part) => part.trim());
  if (magic !== HEADER || (version !== '1.1' && version !== '1.2') || cipher !== 'AES256') {
    return locked('has a vault header that is not known (1.1 or 1.2, AES256); encrypt it again with ansible-vault');
  }
  const [saltHex, hmacHex, cipherHex] = splitParts(fromHex(lines.map((line) => line.trim()).join('')));
  const ciphertext = fromHex(cipherHex);
  const keys = pbkdf2Sync(password, fromHex(saltHex), ITERATIONS, 80, 'sha256');
  const seal = createHmac('sha256', keys.subarray(32, 64)).update(ciphertext).digest();
  const written = fromHex(hmacHex);
  if (written.length !== seal.length || !timingSafeEqual(seal, written)) {
    return locked(
      'cannot be decrypted with this vault-password, or it was changed; correct the input or encrypt it again',
    );
  }
  const decipher = createDecipheriv('aes-256-ctr', keys.subarray(0, 32), keys.subarray(64, 80));
  const padded = Buffer.concat([decipher.update(ciphertext), decipher.final()]);
  const padding = padded[padded.length - 1] ?? 0;
  if (padding < 1 || padding > 16 || padding > padded.length) return damaged();
  return padded.subarray(0, padded.length - padding);
}

function splitParts(bytes: Buffer): [string, string, string] {
  const parts = bytes.toString('latin1').split('\n');
  if (parts.length !== 3) return damaged();
  return parts as [string, string, string];
}

function fromHex(text: string): Buffer {
  if (text.length % 2 !== 0 || !/^[0-9a-fA-F]*$/.test(text)) return damaged();
  return Buffer.from(text, 'hex');
}

function damaged(): never {
  return locked('is damaged; encrypt it again with ansible-vault');
}

function locked(message: string): never {
  throw new ReadingError('vault-locked', message, null);
}
