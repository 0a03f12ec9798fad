import { isMapping, type Key, PyFloat, type Raw, Unsafe, Vaulted } from './raw.js';

/** Python's `str()` of a value, or null for what has no fixed text here (an encrypted text). */
export function pythonString(raw: Raw): string | null {
  if (typeof raw === 'string') return raw;
  if (raw instanceof Unsafe) return raw.text;
  return pythonRepr(raw);
}

/** Python's `repr()` of a value, or null likewise. */
function pythonRepr(raw: Raw): string | null {
  if (raw === null) return 'None';
  if (typeof raw === 'boolean') return raw ? 'True' : 'False';
  if (typeof raw === 'number' || typeof raw === 'bigint') return raw.toString();
  if (raw instanceof PyFloat) return floatText(raw.number);
  if (typeof raw === 'string') return quoted(raw);
  if (raw instanceof Unsafe) return quoted(raw.text);
  if (raw instanceof Vaulted) return null;
  const parts: string[] = [];
  if (isMapping(raw)) {
    for (const [key, value] of raw) {
      const text = pythonRepr(value);
      if (text === null) return null;
      parts.push(`${pythonRepr(key as Exclude<Key, never>)}: ${text}`);
    }
    return `{${parts.join(', ')}}`;
  }
  for (const item of raw) {
    const text = pythonRepr(item);
    if (text === null) return null;
    parts.push(text);
  }
  return `[${parts.join(', ')}]`;
}

function floatText(number: number): string {
  if (Number.isNaN(number)) return 'nan';
  if (!Number.isFinite(number)) return number > 0 ? 'inf' : '-inf';
  const size = Math.abs(number);
  if (size !== 0 && (size < 1e-4 || size >= 1e16)) {
    const [mantissa, exponent] = number.toExponential().split('e') as [string, string];
    return `${mantissa}e${exponent[0]}${exponent.slice(1).padStart(2, '0')}`;
  }
  if (Object.is(number, -0)) return '-0.0';
  return Number.isInteger(number) ? `${number}.0` : String(number);
}

function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  let body = '';
  for (const character of text) {
    if (character === '\\' || character === quote) body += `\\${character}`;
    else if (character === '\n') body += '\\n';
    else if (character === '\r') body += '\\r';
    else if (character === '\t') body += '\\t';
    else if (character !== ' ' && /[\p{C}\p{Z}]/u.test(character)) body += escaped(character.codePointAt(0) as number);
    else body += character;
  }
  return quote + body + quote;
}

function escaped(code: number): string {
  const digits = code.toString(16);
  if (code < 0x100) return `\\x${digits.padStart(2, '0')}`;
  return code < 0x10000 ? `\\u${digits.padStart(4, '0')}` : `\\U${digits.padStart(8, '0')}`;
}
