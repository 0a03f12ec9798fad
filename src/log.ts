/** Where a run's words go. Passed in, so that nothing below main knows whether it runs on GitHub or in a terminal. */
export interface Logger {
  debug(message: string): void;
  info(message: string): void;
  /** Something a person should see although the run goes on. `at` puts it on a line of the fleet repository. */
  notice(message: string, at?: LogPlace): void;
  warning(message: string, at?: LogPlace): void;
  error(message: string, at?: LogPlace): void;
  /** Runs `work` with what it logs folded under `name`; the fold is closed whatever happens. */
  group<T>(name: string, work: () => Promise<T>): Promise<T>;
}

export interface LogPlace {
  readonly file: string;
  /** From 1. */
  readonly line: number | null;
  readonly title?: string;
}
