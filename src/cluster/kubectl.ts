import type { Host } from '../fleet/fleet.js';
import type { Connection } from '../hosts/connection.js';

/** What kubectl answered: always a value. */
export type Answer =
  | { readonly kind: 'answered'; readonly text: string }
  | { readonly kind: 'failed'; readonly why: string };

/** Runs kubectl where the cluster's API is: on one of its servers. */
export interface Kubectl {
  /** `args` are passed as they are; none may hold a line break. At most `seconds`, then it has failed. */
  run(args: readonly string[], seconds: number): Promise<Answer>;
}

// The first line of the data is the Docker context, the second the container, each further one an argument.
const SCRIPT = `
IFS= read -r context
IFS= read -r container
set --
while IFS= read -r argument; do set -- "$@" "$argument"; done
if [ -n "$context" ]; then
  exec docker --context "$context" exec "$container" kubectl "$@" </dev/null
fi
exec docker exec "$container" kubectl "$@" </dev/null
`;

/** kubectl inside the running k3s container of a Compose server host. */
export function kubectlOn(connection: Connection, host: Host): Kubectl {
  return {
    async run(args, seconds) {
      const lines = [host.dockerContext ?? '', host.containers.k3s, ...args];
      if (lines.some((line) => /[\r\n\0]/.test(line))) return { kind: 'failed', why: 'an argument with a line break' };
      const result = await connection.run(SCRIPT, lines.map((line) => `${line}\n`).join(''), seconds);
      switch (result.kind) {
        case 'done':
          return { kind: 'answered', text: result.stdout };
        case 'exited':
          return {
            kind: 'failed',
            why: `kubectl on ${host.name}: ${oneLine(result.stderr) || `exit status ${result.code}`}`,
          };
        case 'unreachable':
          return { kind: 'failed', why: `${host.name} (${result.class}): ${result.message}` };
        case 'timed-out':
          return { kind: 'failed', why: `kubectl on ${host.name} gave no answer within ${result.seconds} seconds` };
      }
    },
  };
}

function oneLine(text: string): string {
  return (
    text
      .trim()
      .split(/\s*\n\s*/)
      .at(-1)
      ?.slice(0, 300) ?? ''
  );
}
