import { randomBytes } from 'node:crypto';
import { chmod, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { command, tryCommand } from './command.js';
import { isAlive, temporaryFolder } from './temporary.js';

/**
 * The login shell of a test user: notes each command in the log that sshd's SetEnv names, prints the banner of a noisy
 * host when there is one, then is /bin/sh. A shell and not a ForceCommand, so that sshd hands over the command unchanged.
 */
const SHELL = `#!/bin/sh
if [ -n "\${FLEET_TEST_LOG:-}" ]; then
  # One write of one line: two sessions at once do not mix.
  printf '%s %s\\n' "\${SSH_CONNECTION:-local}" "$(printf %s "\${2:-}" | base64 -w 0)" | tr ' ' '\\t' >>"$FLEET_TEST_LOG"
fi
[ -z "\${FLEET_TEST_BANNER:-}" ] || printf '%s\\n' "$FLEET_TEST_BANNER"
unset FLEET_TEST_LOG FLEET_TEST_BANNER
# A machine of its own behind the address that was asked, where a test has put one there.
[ ! -f "\${0%/*}/enter" ] || . "\${0%/*}/enter"
exec /bin/sh "$@"
`;

export interface TestUserOptions {
  /**
   * true (default): a second name of root, so that it may use docker and reach what the test made. false: an ordinary
   * user in the docker group.
   */
  readonly root?: boolean;
  /** What sudo does for an ordinary user. Default: `nopasswd`. */
  readonly sudo?: 'nopasswd' | 'password' | 'none';
}

/** A throw-away account of this machine with a home directory of its own. Needs root. */
export class TestUser {
  readonly name: string;
  readonly home: string;
  readonly root: boolean;
  readonly #base: string;
  readonly #sudoers: string;

  private constructor(name: string, base: string, root: boolean) {
    this.name = name;
    this.root = root;
    this.#base = base;
    this.home = join(base, 'home');
    this.#sudoers = `/etc/sudoers.d/${name}`;
  }

  static async create(options: TestUserOptions = {}): Promise<TestUser> {
    await sweep();
    const root = options.root ?? true;
    const name = `frt${process.pid.toString(36)}x${randomBytes(3).toString('hex')}`;
    const user = new TestUser(name, await temporaryFolder('user'), root);
    const shell = join(user.#base, 'sh');
    await chmod(user.#base, 0o755);
    await writeFile(shell, SHELL, { mode: 0o755 });
    await mkdir(user.home, { mode: 0o755 });
    // The password '*' matches nothing and, unlike useradd's '!', is no locked account, which sshd would refuse.
    const args = ['-M', '-d', user.home, '-s', shell, '-p', '*'];
    if (root) args.push('-o', '-u', '0', '-g', '0');
    else args.push('-U', '-G', 'docker');
    await command('useradd', [...args, user.name]);
    await command('chown', [user.name, user.home]);
    const sudo = options.sudo ?? 'nopasswd';
    if (!root && sudo !== 'none') {
      await writeFile(user.#sudoers, `${user.name} ALL=(ALL) ${sudo === 'nopasswd' ? 'NOPASSWD: ' : ''}ALL\n`, {
        mode: 0o440,
      });
    }
    return user;
  }

  /** What the login shell does first, its arguments in "$@": a piece of sh that may `exec` elsewhere. */
  async enter(script: string): Promise<void> {
    await writeFile(join(this.#base, 'enter'), script);
  }

  /** Makes the user the owner of a tree. */
  async own(path: string): Promise<void> {
    await command('chown', ['-R', '-h', this.root ? '0:0' : `${this.name}:${this.name}`, path]);
  }

  /** Removes the account and its home. A process that still runs as an ordinary user is ended. */
  async remove(): Promise<void> {
    await rm(this.#sudoers, { force: true });
    // Never for a root account: it is every root process's user.
    if (!this.root) await tryCommand('pkill', ['-KILL', '-u', this.name]);
    const result = await tryCommand('userdel', ['-f', this.name]);
    await rm(this.#base, { recursive: true, force: true });
    if (result.code !== 0) throw new Error(`userdel ${this.name}: ${result.stderr.trim()}`);
  }
}

/** Removes the accounts of test runs that were killed: the process in their names is no more. */
async function sweep(): Promise<void> {
  for (const line of (await readFile('/etc/passwd', 'utf8')).split('\n')) {
    const match = /^(frt([0-9a-z]+)x[0-9a-f]{6}):/.exec(line);
    if (match === null || isAlive(Number.parseInt(match[2] as string, 36))) continue;
    await rm(`/etc/sudoers.d/${match[1]}`, { force: true });
    await tryCommand('userdel', ['-f', match[1] as string]);
  }
}
