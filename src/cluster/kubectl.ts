import type { Host } from '../fleet/fleet.js';
import type { Connection } from '../hosts/connection.js';

/** What kubectl answered: always a value. */
export type Answer =
  | { readonly kind: 'answered'; readonly text: string }
  | { readonly kind: 'failed'; readonly why: string };

/** Runs kubectl where the cluster's API is: on one of its servers. */
export interface Kubectl {
  /**
   * `args` are passed as they are; none may hold a line break. `input` is kubectl's standard input (`create -f -`): it
   * never stands on a command line. At most `seconds`, then it has failed; what it was asked may be done all the same.
   */
  run(args: readonly string[], seconds: number, input?: string): Promise<Answer>;
  /** Several questions at once, answered in their order; each is bounded by its own `--request-timeout`. */
  runAll(questions: readonly (readonly string[])[], seconds: number): Promise<readonly Answer[]>;
  /** k3s's own command line there, for what kubectl cannot do: `etcd-snapshot save`. */
  k3s(args: readonly string[], seconds: number): Promise<Answer>;
}

// The data: the program, the Docker context, the container (empty: natively), `-i` or nothing, how many arguments, each of them on a
// line of its own, and then what kubectl reads. `read` takes no more than its line, so kubectl gets exactly the rest, or nothing.
const SCRIPT = `
IFS= read -r program
IFS= read -r context
IFS= read -r container
IFS= read -r input
IFS= read -r count
set --
while [ "$count" -gt 0 ]; do
  IFS= read -r argument
  set -- "$@" "$argument"
  count=$((count - 1))
done
if [ -z "$container" ]; then
  [ "$program" = k3s ] || set -- "$program" "$@"
  exec k3s "$@"
fi
if [ -n "$context" ]; then
  exec docker --context "$context" exec $input "$container" "$program" "$@"
fi
exec docker exec $input "$container" "$program" "$@"
`;

// The data: the Docker context, the container, how many questions, and for each how many arguments and the arguments.
// The answers: a line with exit status and length in bytes, then so many bytes. What a failure said is asked for again:
// a warning beside a good answer must not get into it.
const SCRIPT_FOR_ALL = `
IFS= read -r context
IFS= read -r container
IFS= read -r questions
ask() {
  if [ -z "$container" ]; then k3s kubectl "$@"
  elif [ -n "$context" ]; then docker --context "$context" exec "$container" kubectl "$@"
  else docker exec "$container" kubectl "$@"
  fi </dev/null
}
while [ "$questions" -gt 0 ]; do
  questions=$((questions - 1))
  IFS= read -r count
  set --
  while [ "$count" -gt 0 ]; do
    IFS= read -r argument
    set -- "$@" "$argument"
    count=$((count - 1))
  done
  said=$(ask "$@" 2>/dev/null && echo .)
  status=$?
  if [ "$status" -eq 0 ]; then said=\${said%.}; else said=$(ask "$@" 2>&1 >/dev/null | tail -n 1); fi
  length=$(printf %s "$said" | wc -c)
  printf '%s %s\n%s\n' "$status" "$length" "$said"
done
`;

/** kubectl of a server host: inside its running k3s container, or natively `k3s kubectl`. */
export function kubectlOn(connection: Connection, host: Host): Kubectl {
  const place = host.runtime === 'native' ? ['', ''] : [host.dockerContext ?? '', host.containers.k3s];
  const ask = async (program: string, args: readonly string[], seconds: number, input?: string): Promise<Answer> => {
    const lines = [program, ...place, input === undefined ? '' : '-i', String(args.length), ...args];
    if (lines.some((line) => /[\r\n\0]/.test(line))) return { kind: 'failed', why: 'an argument with a line break' };
    if (input?.includes('\0')) return { kind: 'failed', why: 'an input with a NUL' };
    const data = `${lines.map((line) => `${line}\n`).join('')}${input ?? ''}`;
    const result = await connection.run(SCRIPT, data, seconds);
    switch (result.kind) {
      case 'done':
        return { kind: 'answered', text: result.stdout };
      case 'exited': {
        const why = oneLine(result.stderr) || `exit status ${result.code}`;
        return { kind: 'failed', why: `${program} on ${host.name}: ${why}` };
      }
      case 'unreachable':
        return { kind: 'failed', why: `${host.name} (${result.class}): ${result.message}` };
      case 'timed-out':
        return { kind: 'failed', why: `${program} on ${host.name} gave no answer within ${result.seconds} seconds` };
    }
  };
  const askAll: Kubectl['runAll'] = async (questions, seconds) => {
    const lines = [...place, String(questions.length), ...questions.flatMap((args) => [String(args.length), ...args])];
    const all = (why: string): readonly Answer[] => questions.map(() => ({ kind: 'failed', why }));
    if (lines.some((line) => /[\r\n\0]/.test(line))) return all('an argument with a line break');
    const result = await connection.run(SCRIPT_FOR_ALL, lines.map((line) => `${line}\n`).join(''), seconds);
    switch (result.kind) {
      case 'done':
        return answersIn(Buffer.from(result.stdout), questions.length, host.name);
      case 'exited':
        return all(`kubectl on ${host.name}: ${oneLine(result.stderr) || `exit status ${result.code}`}`);
      case 'unreachable':
        return all(`${host.name} (${result.class}): ${result.message}`);
      case 'timed-out':
        return all(`kubectl on ${host.name} gave no answer within ${result.seconds} seconds`);
    }
  };
  return {
    run: (args, seconds, input) => ask('kubectl', args, seconds, input),
    runAll: askAll,
    k3s: (args, seconds) => ask('k3s', args, seconds),
  };
}

function answersIn(bytes: Buffer, count: number, host: string): readonly Answer[] {
  const answers: Answer[] = [];
  let at = 0;
  while (answers.length < count) {
    const end = bytes.indexOf('\n', at);
    const match = end < 0 ? null : /^(\d{1,3}) +(\d{1,9})$/.exec(bytes.subarray(at, end).toString('latin1'));
    if (match === null) {
      answers.push({ kind: 'failed', why: `kubectl on ${host} did not answer` });
      continue;
    }
    const text = bytes.subarray(end + 1, end + 1 + Number(match[2])).toString('utf8');
    at = end + 2 + Number(match[2]);
    const why = `kubectl on ${host}: ${oneLine(text) || `exit status ${match[1]}`}`;
    answers.push(match[1] === '0' ? { kind: 'answered', text } : { kind: 'failed', why });
  }
  return answers;
}

/** A kubectl that has the answers to these questions already, and asks for everything else. */
export async function askedBefore(
  kubectl: Kubectl,
  questions: readonly (readonly string[])[],
  seconds: number,
): Promise<Kubectl> {
  const answers = await kubectl.runAll(questions, seconds);
  const known = new Map(questions.map((args, index) => [JSON.stringify(args), answers[index] as Answer]));
  return {
    ...kubectl,
    run: async (args, limit, input) =>
      (input === undefined ? known.get(JSON.stringify(args)) : undefined) ?? kubectl.run(args, limit, input),
  };
}

/**
 * One kubectl that asks several servers of one cluster in turn until one answers, beginning with the one that answered
 * last: what is held through the API outlives the server it was taken through. `candidates` is asked at every call, so
 * a server that joins or leaves in between counts. The caller vouches that they serve one identity. What failed may
 * have been done: only what may be done twice (reads, and writes with a resourceVersion) may go through it.
 */
export function kubectlOnAny(candidates: () => readonly Kubectl[]): Kubectl {
  let last: Kubectl | null = null;
  const askAny = async (ask: (one: Kubectl) => Promise<Answer>): Promise<Answer> => {
    const all = candidates();
    const first = all.filter((one) => one === last);
    const reasons: string[] = [];
    for (const one of [...first, ...all.filter((other) => other !== last)]) {
      const answer = await ask(one);
      if (answer.kind === 'answered') {
        last = one;
        return answer;
      }
      reasons.push(answer.why);
    }
    return { kind: 'failed', why: reasons.length === 0 ? 'there is no server to ask' : reasons.join('; ') };
  };
  return {
    run: (args, seconds, input) => askAny((one) => one.run(args, seconds, input)),
    runAll: (questions, seconds) => Promise.all(questions.map((args) => askAny((one) => one.run(args, seconds)))),
    k3s: (args, seconds) => askAny((one) => one.k3s(args, seconds)),
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
