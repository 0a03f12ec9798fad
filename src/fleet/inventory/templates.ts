import { OddLiteral, pythonLiteral } from './python-literal.js';
import { pythonString } from './python-text.js';
import { isMapping, type Key, PyFloat, type Raw, Unsafe, Vaulted } from './raw.js';
import {
  type Expression,
  mayBeTemplate,
  namesOf,
  parseTemplate,
  type Template,
  Unresolved,
} from './template-parser.js';
import { truthy } from './yaml-inventory.js';

/** What templates may see: nothing but the inventory. */
export interface World {
  /** The value that wins for a host, as written; undefined when the inventory gives none. */
  variable(host: string, name: string): Raw | undefined;
  hasHost(host: string): boolean;
  /** The names of a group's hosts in order, `open` when Ansible does not fix the order, or undefined. */
  group(name: string): readonly string[] | 'open' | undefined;
  /** The text of an encrypted value. Throws a ReadingError. */
  decrypt(value: Vaulted): string;
}

/** Ansible's value for something that is not there; `default` replaces it, everything else fails. */
class Undefined {
  readonly what: string;

  constructor(what: string) {
    this.what = what;
  }
}

/** A text that Ansible must not turn into a list or a boolean again, because `string` was asked for. */
class PlainText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

class Groups {}
class HostVars {}
class OneHost {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}

type Result = Raw | Undefined | PlainText | Groups | HostVars | OneHost;

/** What is known of a variable of a host; `open` while it is worked out. */
type Known = Raw | PlainText | Undefined | Unresolved | 'open';

const MAX_DEPTH = 60;
const MAX_RESULT = 64 * 1024;

/** Names that Ansible gives a value while it runs; here they have none. */
const RUNTIME_NAMES = new Set(
  (
    'playbook_dir inventory_dir inventory_file omit vars environment role_name role_names role_path role_uuid play_hosts ' +
    'range dict lipsum cycler joiner namespace lookup query q now undef'
  ).split(' '),
);
/** Of the names that begin with `ansible_` those that are undefined until somebody sets them; the others are facts. */
const CONNECTION_NAME =
  /^ansible_(?:host|port|user|password|connection|become|become_(?:user|method|password|pass|exe|flags)|ssh_(?:common_args|extra_args|private_key_file|user|host|port|pass)|private_key_file)$/;
/** Attributes of Python's texts, lists and mappings: `x.keys` is a method there, not an item. */
const PYTHON_ATTRIBUTE =
  /^(?:clear|copy|fromkeys|get|items|keys|pop|popitem|setdefault|update|values|raw_get|set_\w+|_.*)$/;
/** A decrypted text: for Python no text but an object that looks like one, which filters treat otherwise. */
class Decrypted extends Unsafe {}

/** Methods and attributes of Python's texts, lists and numbers: `x.count` is never an item. */
const PYTHON_METHODS = new Set(
  (
    'capitalize casefold center count encode endswith expandtabs find format format_map index isalnum isalpha isascii ' +
    'isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip ' +
    'maketrans partition removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines ' +
    'startswith strip swapcase title translate upper zfill append clear copy extend insert pop remove reverse sort ' +
    'as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag numerator real to_bytes fromhex hex ' +
    'is_integer ansible_pos data vault decode isoformat'
  ).split(' '),
);
const NAME = /^[\p{L}\p{N}_]*$/u;

/** Resolves templates of inventory values, and nothing else: no lookup, no loop, no call. */
export class Templates {
  readonly #world: World;
  readonly #parsed = new Map<string, Template | Unresolved>();
  readonly #known = new Map<string, Map<string, Known>>();
  #depth = 0;

  constructor(world: World) {
    this.#world = world;
  }

  /** The value of a variable of a host. Throws Unresolved (its message follows "because it"), and what decrypting throws. */
  resolve(host: string, raw: Raw): Raw {
    try {
      return unmarked(this.#templated(raw, new Scope(host, false)));
    } catch (error) {
      if (error instanceof UndefinedName) throw new Unresolved(error.message);
      throw error;
    }
  }

  #templated(raw: Raw, scope: Scope): Raw | PlainText {
    if (typeof raw === 'string') return this.#text(raw, scope);
    if (raw instanceof Vaulted) return new Decrypted(this.#world.decrypt(raw));
    if (isMapping(raw)) {
      const result = new Map<Key, Raw>();
      for (const [key, value] of raw) result.set(key, unmarked(this.#templated(value, scope)));
      return result;
    }
    return Array.isArray(raw) ? raw.map((item) => unmarked(this.#templated(item, scope))) : raw;
  }

  #text(text: string, scope: Scope): Raw | PlainText {
    if (!mayBeTemplate(text)) return text;
    if (text.length > MAX_RESULT) throw new Unresolved('is longer than 64 KiB');
    const single = singleName(text);
    if (single !== null) {
      const raw = this.#raw(single, scope);
      if (raw === null || isNumberOrBoolean(raw)) return raw;
    }
    const template = this.#parse(text);
    // Jinja looks up all names before it works out anything, so one that cannot be had spoils the whole template.
    for (const name of namesOf(template)) this.#name(name, scope);
    const results = template.map((part) => (typeof part === 'string' ? part : this.#evaluate(part, scope)));
    if (results.length === 1) {
      const only = results[0] as Result;
      if (only instanceof PlainText) return only;
      if (isPlainCollection(only)) return only;
    }
    let out = '';
    for (const result of results) {
      out += textOf(result);
      if (out.length > MAX_RESULT) throw new Unresolved('grows beyond 64 KiB');
    }
    if (/^[{[]/.test(out) || out === 'True' || out === 'False') {
      const literal = literalOf(out);
      if (literal !== undefined) return literal;
    }
    const missing = trailingBreaks(text) - trailingBreaks(out);
    return missing > 0 ? out + '\n'.repeat(missing) : out;
  }

  #parse(text: string): Template {
    let template = this.#parsed.get(text);
    if (template === undefined) {
      try {
        template = parseTemplate(text);
      } catch (error) {
        if (!(error instanceof Unresolved)) throw error;
        template = error;
      }
      this.#parsed.set(text, template);
    }
    if (template instanceof Unresolved) throw template;
    return template;
  }

  /** A variable as written, or one of Ansible's own; undefined when there is none. */
  #raw(name: string, scope: Scope): Raw | undefined {
    return name === 'groups' || name === 'hostvars' || RUNTIME_NAMES.has(name)
      ? undefined
      : this.#world.variable(scope.host, name);
  }

  #name(name: string, scope: Scope): Result {
    if (name === 'groups') return new Groups();
    if (name === 'hostvars') {
      if (scope.throughHostvars) throw new Unresolved('uses hostvars inside a value that is read through hostvars');
      return new HostVars();
    }
    const raw = this.#raw(name, scope);
    if (raw === undefined) {
      if (RUNTIME_NAMES.has(name) || (name.startsWith('ansible_') && !CONNECTION_NAME.test(name))) {
        throw new Unresolved(`uses ${name}, which has a value only while Ansible runs`);
      }
      return new Undefined(name);
    }
    if (typeof raw !== 'object' && !(typeof raw === 'string' && mayBeTemplate(raw))) return raw;
    const known = this.#memo(scope);
    const found = known.get(name);
    if (found === 'open') throw new Unresolved(`refers to ${name}, which refers to itself`);
    if (found instanceof Unresolved) throw found;
    if (found !== undefined) return found;
    if (++this.#depth > MAX_DEPTH) throw new Unresolved(`refers through more than ${MAX_DEPTH} variables`);
    known.set(name, 'open');
    let result: Exclude<Known, 'open'>;
    try {
      result = this.#templated(raw, scope);
    } catch (error) {
      if (error instanceof UndefinedName) result = new Undefined(error.what);
      else if (error instanceof Unresolved) result = error;
      else {
        known.delete(name);
        throw error;
      }
    } finally {
      this.#depth--;
    }
    known.set(name, result);
    if (result instanceof Unresolved) throw result;
    return result;
  }

  #memo(scope: Scope): Map<string, Known> {
    const key = `${scope.throughHostvars ? 'h' : 'd'}${scope.host}`;
    let known = this.#known.get(key);
    if (known === undefined) {
      known = new Map();
      this.#known.set(key, known);
    }
    return known;
  }

  #evaluate(expression: Expression, scope: Scope): Result {
    switch (expression.kind) {
      case 'literal':
        return expression.value;
      case 'list':
        return expression.items.map((item) => {
          const value = this.#evaluate(item, scope);
          if (!isRaw(value)) throw new Unresolved('has a list of something that has no value');
          return value;
        });
      case 'empty-mapping':
        return new Map();
      case 'name':
        return this.#name(expression.name, scope);
      case 'item':
        return this.#item(
          this.#evaluate(expression.of, scope),
          this.#evaluate(expression.key, scope),
          expression.dotted,
        );
      case 'filter':
        return this.#filter(expression, scope);
    }
  }

  #item(of: Result, key: Result, dotted: boolean): Result {
    if (of instanceof Undefined) return of;
    if (of instanceof Decrypted || key instanceof Decrypted)
      throw new Unresolved('takes an item by or of an encrypted value');
    if (key instanceof Undefined) throw new UndefinedName(key.what);
    const index = key instanceof PlainText ? key.text : key instanceof Unsafe ? key.text : key;
    const method = typeof index === 'string' && PYTHON_ATTRIBUTE.test(index);
    if (dotted && method) throw new Unresolved(`uses .${index}, which is a method in Python`);
    if (of instanceof Groups) {
      const hosts = typeof index === 'string' ? this.#world.group(index) : undefined;
      if (hosts === 'open') throw new Unresolved(`uses the hosts of ${index}, whose order Ansible leaves to chance`);
      return hosts ?? missing(index, method);
    }
    if (of instanceof HostVars) {
      if (typeof index === 'string' && this.#world.hasHost(index)) return new OneHost(index);
      if (index === 'localhost' || index === '127.0.0.1' || index === '::1') {
        throw new Unresolved('uses the host localhost, which is not in the inventory');
      }
      return missing(index, method);
    }
    if (of instanceof OneHost) {
      if (typeof index !== 'string') throw new Unresolved('uses hostvars with a key that is no text');
      const value = this.#name(index, new Scope(of.name, true));
      if (value instanceof Undefined && this.#raw(index, new Scope(of.name, true)) !== undefined) {
        throw new Unresolved(`uses ${index} of ${of.name}, which refers to ${value.what}, and that is not defined`);
      }
      return value instanceof Undefined ? missing(index, method) : value;
    }
    if (!(of instanceof PlainText) && isMapping(of) && isKey(index)) {
      const value = of.get(index);
      return value === undefined ? missing(index, method) : value;
    }
    if (Array.isArray(of)) {
      if (typeof index === 'number' && Number.isInteger(index))
        return (of as readonly Raw[]).at(index) ?? itemOf(of, index);
    }
    if (typeof of === 'string' && typeof index === 'number') {
      const character = [...of].at(index);
      return character === undefined ? new Undefined(`item ${index}`) : character;
    }
    // Whatever else it is, for Python it has attributes, and no items by this key.
    if (typeof index === 'string' && PYTHON_METHODS.has(index))
      throw new Unresolved(`uses ${index}, a method in Python`);
    return new Undefined(keyName(index));
  }

  #filter(expression: Expression & { kind: 'filter' }, scope: Scope): Result {
    const { name } = expression;
    const input = this.#evaluate(expression.of, scope);
    const args = expression.arguments;
    if (name === 'default' || name === 'd') {
      const [fallback, boolean] = defaultArguments(args);
      // Jinja works out the arguments whether they are used or not.
      const useFalsy = boolean !== null && isTrue(this.#evaluate(boolean, scope));
      const other = fallback === null ? '' : this.#evaluate(fallback, scope);
      return input instanceof Undefined || (useFalsy && !isTrue(input)) ? other : input;
    }
    if (input instanceof Undefined) throw new UndefinedName(input.what);
    if (input instanceof Decrypted && (name === 'int' || name === 'bool')) {
      throw new Unresolved(`uses the filter ${name} on an encrypted value`);
    }
    if (name === 'int' && args.length <= 1 && (args[0]?.name ?? 'default') === 'default') {
      return toInt(input, args[0] === undefined ? 0 : this.#evaluate(args[0].value, scope));
    }
    if (args.length > 0 || !['lower', 'upper', 'string', 'bool'].includes(name)) {
      throw new Unresolved(`uses the filter ${name}, which fleet-role does not resolve`);
    }
    if (name === 'bool') return toBool(input);
    const text = textOf(input, true);
    if (name === 'string') return new PlainText(text);
    return name === 'lower' ? text.toLowerCase() : text.toUpperCase();
  }
}

/** The name of a template that is one name and nothing else: Ansible then keeps the type of its value. */
function singleName(text: string): string | null {
  const body = text.endsWith('\n') ? text.slice(0, -1) : text;
  if (!body.startsWith('{{') || !body.endsWith('}}') || body.length < 4) return null;
  const name = body.slice(2, -2).trim();
  return NAME.test(name) ? name : null;
}

class Scope {
  readonly host: string;
  readonly throughHostvars: boolean;

  constructor(host: string, throughHostvars: boolean) {
    this.host = host;
    this.throughHostvars = throughHostvars;
  }
}

function unmarked(value: Raw | PlainText): Raw {
  return value instanceof PlainText ? value.text : value;
}

/** Something undefined was used where Ansible fails; a variable that holds it is undefined itself. */
class UndefinedName extends Error {
  readonly what: string;

  constructor(what: string) {
    super(`refers to ${what}, which the inventory does not define`);
    this.what = what;
  }
}

function missing(index: unknown, method: boolean): Undefined {
  if (method) throw new Unresolved(`uses ${String(index)}, which is a method in Python`);
  return new Undefined(String(index));
}

function keyName(index: unknown): string {
  return typeof index === 'string' || typeof index === 'number' ? String(index) : 'an item';
}

/** A list's item that is null, or nothing. */
function itemOf(list: readonly Raw[], index: number): Result {
  return index < list.length && index >= -list.length ? null : new Undefined(`item ${index}`);
}

function isRaw(result: Result): result is Raw {
  return !(
    result instanceof Undefined ||
    result instanceof PlainText ||
    result instanceof Groups ||
    result instanceof HostVars ||
    result instanceof OneHost
  );
}

function isKey(value: unknown): value is Key {
  return value === null || ['string', 'number', 'boolean'].includes(typeof value);
}

function isNumberOrBoolean(raw: Raw | undefined): raw is boolean | number | bigint | PyFloat {
  return typeof raw === 'boolean' || typeof raw === 'number' || typeof raw === 'bigint' || raw instanceof PyFloat;
}

/** A list or mapping that is the same after Ansible wrote it as text and read it again. */
function isPlainCollection(result: Result): result is Raw {
  if (!isRaw(result) || typeof result !== 'object' || result === null) return false;
  const plain = (raw: Raw): boolean => {
    if (isMapping(raw)) return [...raw.values()].every(plain);
    if (Array.isArray(raw)) return raw.every(plain);
    return typeof raw !== 'object' || raw === null;
  };
  return (isMapping(result) || Array.isArray(result)) && plain(result);
}

/** The text that a result adds to its template. `whole`: a null is the word None. Throws for what has none. */
function textOf(result: Result, whole = false): string {
  if (result instanceof PlainText) return result.text;
  if (result instanceof Undefined) throw new UndefinedName(result.what);
  if (!isRaw(result)) throw new Unresolved('uses all of groups or of hostvars at once');
  if (result === null && !whole) return '';
  const text = pythonString(result);
  if (text === null) throw new Unresolved('uses an encrypted value inside a list');
  return text;
}

function isTrue(result: Result): boolean {
  if (result instanceof Undefined) return false;
  if (result instanceof PlainText) return result.text !== '';
  if (result instanceof Unsafe) return result.text !== '';
  return !isRaw(result) || truthy(result);
}

function literalOf(text: string): Raw | undefined {
  try {
    return pythonLiteral(text, true);
  } catch (error) {
    if (error instanceof OddLiteral) throw new Unresolved('gives a value that has no counterpart outside Python');
    throw error;
  }
}

function trailingBreaks(text: string): number {
  return /\n*$/.exec(text.slice(-1000))?.[0].length ?? 0;
}

/** The fallback and the flag of `default`, by place or by name. */
function defaultArguments(
  args: readonly { readonly name: string | null; readonly value: Expression }[],
): [Expression | null, Expression | null] {
  const found: [Expression | null, Expression | null] = [null, null];
  for (const [index, { name, value }] of args.entries()) {
    const place = name === null ? index : ['default_value', 'boolean'].indexOf(name);
    if (place < 0 || place > 1 || found[place] !== null)
      throw new Unresolved('gives default arguments that it does not have');
    found[place] = value;
  }
  return found;
}

/** Ansible's `bool`: what it does not know is false. */
function toBool(result: Result): boolean | null {
  const value = result instanceof PlainText || result instanceof Unsafe ? result.text : result;
  if (value === null || typeof value === 'boolean') return value;
  if (typeof value === 'string') return ['yes', 'on', '1', 'true'].includes(value.toLowerCase());
  return value === 1 || (value instanceof PyFloat && value.number === 1);
}

/** Jinja's `int`: through a float where it is no whole number. */
function toInt(result: Result, fallback: Result): Result {
  const value = result instanceof PlainText || result instanceof Unsafe ? result.text : result;
  if (typeof value === 'number' || typeof value === 'bigint') return value;
  if (typeof value === 'boolean') return Number(value);
  let number = Number.NaN;
  if (value instanceof PyFloat) number = value.number;
  else if (typeof value === 'string') {
    const text = value.trim();
    if (/^[-+]?[0-9]+(?:_[0-9]+)*$/.test(text)) {
      const digits = text.replaceAll('_', '').replace(/^\+/, '');
      const whole = digits.startsWith('-') ? -BigInt(digits.slice(1)) : BigInt(digits);
      return Number.isSafeInteger(Number(whole)) ? Number(whole) : whole;
    }
    const decimal = /^[-+]?(?:[0-9]+(?:_[0-9]+)*\.?(?:[0-9]+(?:_[0-9]+)*)?|\.[0-9]+(?:_[0-9]+)*)(?:[eE][-+]?[0-9]+)?$/;
    if (decimal.test(text)) number = Number(text.replaceAll('_', ''));
    else if (/^[-+]?inf(?:inity)?$/i.test(text)) throw new Unresolved('makes a whole number of infinity');
  }
  if (Number.isNaN(number)) return fallback;
  if (!Number.isFinite(number)) throw new Unresolved('makes a whole number of infinity');
  const whole = Math.trunc(number);
  return Number.isSafeInteger(whole) ? whole + 0 : BigInt(whole);
}
