/**
 * The user's mistake: bad input, an event that is not allowed, a commit that cannot be had. Its message says what is
 * wrong, where, and the way out; it is shown without a stack. Anything else that is thrown is our own error.
 */
export class UserError extends Error {
  override readonly name = 'UserError';
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Marks a branch that the types exclude; throws when a value reaches it all the same. */
export function assertNever(value: never): never {
  throw new Error(`unexpected value: ${JSON.stringify(value)}`);
}
