/**
 * How a script travels and how its answer comes back. Everything goes over standard input; the answer stands between
 * two lines of our own, so that what a login shell prints before or after it does not matter.
 */

/** What the constant remote command prints before it asks sudo: no begin line after it means that sudo refused. */
export const SHELL_LINE = 'fleet-role-shell';

/**
 * The two commands that ever stand on a remote command line. They mean the same to every login shell (bash, dash, zsh,
 * fish, csh): single quotes without a backslash, a single quote or an exclamation mark inside.
 * The home of the connecting user is handed on, since `~` in the project directory means that one and not root's.
 */
export const PLAIN_COMMAND = 'exec sh -s';
export const BECOME_SCRIPT = `echo ${SHELL_LINE}; exec sudo -H -n sh -s "$HOME"`;
export const BECOME_COMMAND = `exec sh -c '${BECOME_SCRIPT}'`;

/** Exit codes with which `timeout` says that it ended the script: 124, or the signal's when it had to be killed. */
const TIMEOUT_CODES = new Set([124, 137, 143]);

/**
 * The text for `sh -s`: it prints the begin line, runs `script` with `stdin` as its standard input and the connecting
 * user's home as `$1`, and prints the end line with its exit status.
 *
 * - `mark` is random: no value of `script` or `stdin` can hold a line equal to it and so end the here-document early.
 * - Here-documents with a quoted delimiter: nothing in `script` or `stdin` is expanded by the outer shell.
 * - Both levels are one compound command each: a shell runs it only after it has read it to its end, so a connection
 *   that breaks while sending runs nothing at all.
 * - With `seconds`, and where the host has `timeout`, the script ends there by itself, with everything that it started;
 *   null where the runner can end all of it.
 *
 * Throws when `stdin` holds a NUL, which no shell can pass on: a mistake of ours.
 */
export function frame(script: string, stdin: string, seconds: number | null, mark: string): string {
  if (script.includes('\0') || stdin.includes('\0')) throw new Error('a script or its data holds a NUL');
  const direct = `set -- sh -s "\${1-$HOME}"`;
  const limited = `set -- timeout -k 5 ${Math.max(1, Math.ceil(seconds ?? 1))} sh -s "\${1-$HOME}"`;
  const start =
    seconds === null ? direct : `if timeout 5 true </dev/null >/dev/null 2>&1; then\n${limited}\nelse\n${direct}\nfi`;
  return `fleet_role_outer() {
LC_ALL=C
PATH="\${PATH:-/usr/bin:/bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin"
export LC_ALL PATH
unset ENV BASH_ENV CDPATH
umask 022
printf '\\n%s begin\\n' ${mark}
printf '\\n%s begin\\n' ${mark} >&2
${start}
"$@" <<'${mark}-script'
fleet_role_script() {
${script.replace(/\n*$/, '')}
}
fleet_role_script "$@" <<'${mark}-data'
${withFinalNewline(stdin)}${mark}-data
${mark}-script
fleet_role_code=$?
printf '\\n%s end %s\\n' ${mark} "$fleet_role_code" >&2
printf '\\n%s end %s\\n' ${mark} "$fleet_role_code"
}
fleet_role_outer "$@"
exit 0
`;
}

function withFinalNewline(text: string): string {
  return text === '' || text.endsWith('\n') ? text : `${text}\n`;
}

export interface Framed {
  /** The script was started on the host. */
  readonly begun: boolean;
  /** Exactly what stands between the two lines; everything after the begin line when the end line is missing. */
  readonly text: string;
  /** The script's exit status; null when the end line is missing. */
  readonly code: number | null;
}

/** What `output` holds between the lines that `frame` with this mark makes the host print. */
export function unframe(output: string, mark: string): Framed {
  const begin = `\n${mark} begin\n`;
  // A banner may end without a newline, and the frame's own newline makes up for it; at the very start there is none.
  const start = output.indexOf(begin);
  if (start < 0) return { begun: false, text: '', code: null };
  const body = output.slice(start + begin.length);
  const end = new RegExp(`\\n${mark} end ([0-9]+)\\n`).exec(body);
  if (end === null) return { begun: true, text: body, code: null };
  return { begun: true, text: body.slice(0, end.index), code: Number(end[1]) };
}

/** True when this exit status of the framed script means that the host's own `timeout` ended it. */
export function endedByTimeout(code: number): boolean {
  return TIMEOUT_CODES.has(code);
}
