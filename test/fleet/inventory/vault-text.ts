import { createCipheriv, createHmac, pbkdf2Sync } from 'node:crypto';

/** A text as `ansible-vault` writes it. The salt may be fixed: it protects nothing here. */
export function vaultText(text: string, password: string, salt = 'a salt of a test that is no key.'): string {
  const keys = pbkdf2Sync(password, salt, 10_000, 80, 'sha256');
  const plain = Buffer.from(text);
  const padding = 16 - (plain.length % 16);
  const cipher = createCipheriv('aes-256-ctr', keys.subarray(0, 32), keys.subarray(64, 80));
  const sealed = Buffer.concat([cipher.update(Buffer.concat([plain, Buffer.alloc(padding, padding)])), cipher.final()]);
  const hmac = createHmac('sha256', keys.subarray(32, 64)).update(sealed).digest('hex');
  const body = Buffer.from([Buffer.from(salt).toString('hex'), hmac, sealed.toString('hex')].join('\n')).toString(
    'hex',
  );
  return `$ANSIBLE_VAULT;1.1;AES256\n${(body.match(/.{1,80}/g) ?? []).join('\n')}\n`;
}
