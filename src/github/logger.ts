import type { Logger, LogPlace } from '../log.js';
import { logText } from '../report/escape.js';

/** What is used of `@actions/core`. */
export interface LogCore {
  debug(message: string): void;
  info(message: string): void;
  notice(message: string, properties?: CoreProperties): void;
  warning(message: string, properties?: CoreProperties): void;
  error(message: string, properties?: CoreProperties): void;
  group<T>(name: string, work: () => Promise<T>): Promise<T>;
}

interface CoreProperties {
  title?: string;
  file?: string;
  startLine?: number;
}

/** The log of a run on GitHub: workflow commands for what people should see, and no command in what is quoted. */
export function runnerLogger(core: LogCore): Logger {
  return {
    debug: (message) => core.debug(logText(message)),
    info: (message) => core.info(logText(message)),
    notice: (message, at) => core.notice(logText(message), propertiesOf(at)),
    warning: (message, at) => core.warning(logText(message), propertiesOf(at)),
    error: (message, at) => core.error(logText(message), propertiesOf(at)),
    group: (name, work) => core.group(oneLine(name), work),
  };
}

/** A stream of text, such as `process.stdout`. */
export interface TextSink {
  write(text: string): unknown;
}

export interface PlainLoggerOptions {
  /** For `info` and `group`. */
  readonly out: TextSink;
  /** For everything that a person should see. */
  readonly err: TextSink;
  /** Debug lines are written too, to `err`. */
  readonly verbose?: boolean;
}

/** The log of a run in a terminal: plain lines, places in front as compilers write them. */
export function plainLogger({ out, err, verbose = false }: PlainLoggerOptions): Logger {
  const tell = (word: string) => (message: string, at?: LogPlace) => {
    err.write(`${placeOf(at)}${word}: ${titleOf(at)}${logText(message)}\n`);
  };
  return {
    debug: (message) => {
      if (verbose) err.write(`debug: ${logText(message)}\n`);
    },
    info: (message) => {
      out.write(`${logText(message)}\n`);
    },
    notice: tell('notice'),
    warning: tell('warning'),
    error: tell('error'),
    async group(name, work) {
      out.write(`== ${oneLine(name)}\n`);
      return work();
    },
  };
}

function propertiesOf(at: LogPlace | undefined): CoreProperties {
  if (at === undefined) return {};
  return {
    // The path is data for the runner, which `@actions/core` escapes; changed, it would name another file.
    file: at.file,
    ...(at.line === null ? {} : { startLine: at.line }),
    ...(at.title === undefined ? {} : { title: oneLine(at.title) }),
  };
}

function placeOf(at: LogPlace | undefined): string {
  if (at === undefined) return '';
  return `${oneLine(at.file)}${at.line === null ? '' : `:${at.line}`}: `;
}

function titleOf(at: LogPlace | undefined): string {
  return at?.title === undefined ? '' : `${oneLine(at.title)}: `;
}

function oneLine(text: string): string {
  return logText(text.replace(/[\r\n]+/g, ' '));
}
