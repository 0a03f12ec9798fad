import { type CommandOptions, type CommandResult, command, tryCommand } from './command.js';

export interface DockerVersions {
  readonly engine: string;
  readonly compose: string;
}

const WAY_OUT = 'run "bash .ci/install.sh" (it installs and starts what the end-to-end tests need)';

/**
 * The versions of the running engine and of the Compose plugin. Throws with the way out when there is no docker, no
 * engine answers, or Compose is not version 2 or newer (version 1 is another program with other labels).
 */
export async function requireDocker(): Promise<DockerVersions> {
  const engine = await tryCommand('docker', ['version', '--format', '{{.Server.Version}}']).catch(notFound);
  if (engine.code !== 0) throw new Error(`no Docker Engine answers (${firstLine(engine)}): ${WAY_OUT}`);
  const compose = await tryCommand('docker', ['compose', 'version', '--short']);
  const version = compose.stdout.trim().replace(/^v/, '');
  if (compose.code !== 0) throw new Error(`there is no Docker Compose plugin (${firstLine(compose)}): ${WAY_OUT}`);
  if (!(Number.parseInt(version, 10) >= 2)) throw new Error(`Docker Compose ${version} is not version 2: ${WAY_OUT}`);
  return { engine: engine.stdout.trim(), compose: version };
}

/** Standard output of `docker ARGS`; throws when it fails. */
export function docker(args: readonly string[], options?: CommandOptions): Promise<string> {
  return command('docker', args, options);
}

function notFound(error: unknown): CommandResult {
  return { code: 127, stdout: '', stderr: error instanceof Error ? error.message : String(error) };
}

function firstLine(result: CommandResult): string {
  return (result.stderr.trim() || result.stdout.trim()).split('\n')[0] ?? '';
}
