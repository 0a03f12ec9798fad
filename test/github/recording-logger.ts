import type { Logger } from '../../src/log.js';

/** Keeps what a person would see; debug lines apart. */
export class RecordingLogger implements Logger {
  readonly lines: string[] = [];
  readonly debugLines: string[] = [];

  debug(message: string): void {
    this.debugLines.push(message);
  }
  info(message: string): void {
    this.lines.push(`info: ${message}`);
  }
  notice(message: string): void {
    this.lines.push(`notice: ${message}`);
  }
  warning(message: string): void {
    this.lines.push(`warning: ${message}`);
  }
  error(message: string): void {
    this.lines.push(`error: ${message}`);
  }
  async group<T>(_name: string, work: () => Promise<T>): Promise<T> {
    return work();
  }
}
