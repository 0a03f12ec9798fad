import { type Key, PyFloat, type Raw } from './raw.js';
import { ReadingError } from './text.js';

/**
 * The types that YAML 1.1 gives to plain scalars, as PyYAML reads them. Differences to YAML 1.2 that matter in an
 * inventory: yes/no/on/off are booleans (y/n are texts), a leading 0 is octal, 1_000 and 10:30 are numbers, 1e3 is a
 * text.
 */
const BOOLEAN = /^(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$/;
const FLOAT =
  /^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$/;
const INTEGER =
  /^(?:[-+]?0b[01_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+)$/;
const NULL = /^(?:~|null|Null|NULL|)$/;
const DATE = /^[0-9]{4}-[0-9]{2}-[0-9]{2}$/;
const TIMESTAMP =
  /^([0-9]{4})-([0-9][0-9]?)-([0-9][0-9]?)(?:(?:[Tt]|[ \t]+)([0-9][0-9]?):([0-9]{2}):([0-9]{2})(?:\.([0-9]*))?(?:[ \t]*(Z|([-+])([0-9][0-9]?)(?::([0-9]{2}))?))?)?$/;

export type ScalarType = 'null' | 'bool' | 'int' | 'float' | 'timestamp' | 'merge' | 'value' | 'str';

/** The type of a plain scalar. */
export function plainType(text: string): ScalarType {
  const first = text.charCodeAt(0);
  // Most scalars begin with a letter that no other type begins with.
  if (text === '' || text === '~') return 'null';
  if ((first >= 48 && first <= 57) || first === 43 || first === 45 || first === 46) {
    if (FLOAT.test(text)) return 'float';
    if (INTEGER.test(text)) return 'int';
    if (DATE.test(text) || TIMESTAMP.exec(text)?.[4] !== undefined) return 'timestamp';
    return 'str';
  }
  if (text.length <= 5 && BOOLEAN.test(text)) return 'bool';
  if (text.length === 4 && NULL.test(text)) return 'null';
  if (text === '<<') return 'merge';
  if (text === '=') return 'value';
  return 'str';
}

/** The integer of a text, as PyYAML makes it. Throws a ReadingError for what is none (`0x_`). */
export function integerOf(written: string, at: number): number | bigint {
  // Python refuses to convert longer ones.
  if (written.length > 4300) throw new ReadingError('bad-syntax', 'the number is too long; put it in quotes', at);
  const text = written.replaceAll('_', '');
  const sign = text.startsWith('-') ? -1n : 1n;
  const digits = /^[-+]/.test(text) ? text.slice(1) : text;
  let value: bigint;
  if (/^0b[01]+$/.test(digits) || /^0x[0-9a-fA-F]+$/.test(digits)) value = BigInt(digits);
  else if (/^0[0-7]+$/.test(digits)) value = BigInt(`0o${digits}`);
  else if (/^[0-9]+(?::[0-9]+)+$/.test(digits))
    value = digits.split(':').reduce((sum, part) => sum * 60n + BigInt(part), 0n);
  else if (/^(?:0|[1-9][0-9]*)$/.test(digits)) value = BigInt(digits);
  else throw new ReadingError('bad-syntax', `${JSON.stringify(written)} is no whole number; put it in quotes`, at);
  value *= sign;
  return value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value;
}

/** The float of a text, as PyYAML makes it. Throws a ReadingError for what is none. */
export function floatOf(written: string, at: number): PyFloat {
  const text = written.replaceAll('_', '').toLowerCase();
  const sign = text.startsWith('-') ? -1 : 1;
  const digits = /^[-+]/.test(text) ? text.slice(1) : text;
  if (digits === '.inf') return new PyFloat(sign * Number.POSITIVE_INFINITY);
  if (digits === '.nan') return new PyFloat(Number.NaN);
  let value: number;
  if (digits.includes(':')) value = digits.split(':').reduce((sum, part) => sum * 60 + pythonFloat(part), 0);
  else value = pythonFloat(digits);
  if (Number.isNaN(value)) {
    throw new ReadingError('bad-syntax', `${JSON.stringify(written)} is no number; put it in quotes`, at);
  }
  return new PyFloat(sign * value);
}

function pythonFloat(text: string): number {
  return /^(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$/.test(text) ? Number(text) : Number.NaN;
}

/** A date or time as Python prints it. Throws a ReadingError for one that does not exist. */
export function timestampOf(written: string, at: number): string {
  const match = TIMESTAMP.exec(written);
  const part = (index: number) => Number(match?.[index] ?? 0);
  const [year, month, day, hour, minute, second] = [1, 2, 3, 4, 5, 6].map(part) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const days = month >= 1 && month <= 12 ? daysOf(year, month) : 0;
  const offsetHours = part(10);
  if (
    match === null ||
    year < 1 ||
    day < 1 ||
    day > days ||
    hour > 23 ||
    minute > 59 ||
    second > 59 ||
    offsetHours > 23
  ) {
    throw new ReadingError('bad-syntax', `${JSON.stringify(written)} is no date; put it in quotes`, at);
  }
  const pad = (number: number, width = 2) => String(number).padStart(width, '0');
  const date = `${pad(year, 4)}-${pad(month)}-${pad(day)}`;
  if (match[4] === undefined) return date;
  const fraction = (match[7] ?? '').slice(0, 6).padEnd(6, '0');
  const zone =
    match[8] === undefined ? '' : match[9] === undefined ? '+00:00' : zoneOf(match[9], offsetHours, part(11));
  return `${date} ${pad(hour)}:${pad(minute)}:${pad(second)}${fraction === '000000' ? '' : `.${fraction}`}${zone}`;
}

function zoneOf(sign: string, hours: number, minutes: number): string {
  const total = hours * 60 + minutes;
  const pad = (number: number) => String(number).padStart(2, '0');
  return `${total === 0 ? '+' : sign}${pad(Math.floor(total / 60))}:${pad(total % 60)}`;
}

function daysOf(year: number, month: number): number {
  const leap = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  return [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1] as number;
}

/** The value of a plain scalar that stands where a value or a key may stand. */
export function plainValue(text: string, at: number): Raw {
  switch (plainType(text)) {
    case 'null':
      return null;
    case 'bool':
      return /^(?:yes|true|on)$/i.test(text);
    case 'int':
      return integerOf(text, at);
    case 'float':
      return floatOf(text, at);
    case 'timestamp':
      return timestampOf(text, at);
    case 'merge':
    case 'value':
      throw new ReadingError('bad-syntax', `Ansible cannot read the value ${text}; put it in quotes`, at);
    case 'str':
      return text;
  }
}

/** Python's identity of keys, as a key of a Map: 1, 1.0 and true are one key, and "1" is another. */
export function keyIdentity(key: Key): string | number | null {
  return typeof key === 'boolean' ? Number(key) : key;
}
