/** What stands between `{{` and `}}`, of the few forms that fleet-role resolves. */
export type Expression =
  | { readonly kind: 'literal'; readonly value: string | number | boolean | null }
  | { readonly kind: 'list'; readonly items: readonly Expression[] }
  | { readonly kind: 'empty-mapping' }
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'item'; readonly of: Expression; readonly key: Expression; readonly dotted: boolean }
  | {
      readonly kind: 'filter';
      readonly of: Expression;
      readonly name: string;
      readonly arguments: readonly Argument[];
    };

export interface Argument {
  readonly name: string | null;
  readonly value: Expression;
}

/** Texts and expressions in turn. */
export type Template = readonly (string | Expression)[];

/** Says why a template is not resolved; the message goes on after "because it". */
export class Unresolved extends Error {}

/** Whether Ansible would take the text for a template. */
export function mayBeTemplate(text: string): boolean {
  return text.includes('{{') || text.includes('{%') || text.includes('{#');
}

/** Jinja's words and globals: they are no variables. */
const RESERVED = new Set([
  'and',
  'or',
  'not',
  'in',
  'is',
  'if',
  'else',
  'elif',
  'for',
  'import',
  'with',
  'without',
  'context',
  'recursive',
]);
const CONSTANTS = new Map<string, boolean | null>([
  ['true', true],
  ['True', true],
  ['false', false],
  ['False', false],
  ['none', null],
  ['None', null],
]);
const MAX_NESTING = 32;
const MAX_OPERATIONS = 100;

/** The parts of a template. Throws Unresolved for everything beyond references, items and filters. */
export function parseTemplate(source: string): Template {
  if (source.startsWith('#jinja2:')) throw new Unresolved('sets Jinja options');
  const text = source.replace(/\r\n?/g, '\n').replace(/\n$/, '');
  const parts: (string | Expression)[] = [];
  let at = 0;
  for (;;) {
    const next = /\{[{%#]/g;
    next.lastIndex = at;
    const match = next.exec(text);
    if (match === null) {
      if (at < text.length) parts.push(text.slice(at));
      return parts;
    }
    if (match[0] !== '{{')
      throw new Unresolved(match[0] === '{%' ? 'holds a statement {% … %}' : 'holds a comment {# … #}');
    if (match.index > at) parts.push(text.slice(at, match.index));
    const parser = new ExpressionParser(text, match.index + 2);
    parts.push(parser.whole());
    at = parser.end;
  }
}

class ExpressionParser {
  readonly #text: string;
  #at: number;
  #depth = 0;
  #operations = 0;

  constructor(text: string, at: number) {
    this.#text = text;
    this.#at = at;
    if (text[at] === '-' || text[at] === '+') throw new Unresolved('trims the text around it');
  }

  get end(): number {
    return this.#at;
  }

  whole(): Expression {
    const expression = this.#filtered();
    this.#space();
    if (!this.#text.startsWith('}}', this.#at)) {
      if (this.#at >= this.#text.length) throw new Unresolved('is not closed with }}');
      throw new Unresolved(
        `holds ${JSON.stringify(this.#text[this.#at])}, an operator or form that fleet-role does not resolve`,
      );
    }
    this.#at += 2;
    return expression;
  }

  #space(): void {
    while (/\s/.test(this.#text.charAt(this.#at)) && this.#at < this.#text.length) this.#at++;
  }

  #takes(character: string): boolean {
    this.#space();
    if (this.#text[this.#at] !== character) return false;
    this.#at++;
    return true;
  }

  /** Each item and filter is one level for whoever works the expression out. */
  #operation(): void {
    if (++this.#operations > MAX_OPERATIONS) throw new Unresolved(`has more than ${MAX_OPERATIONS} items and filters`);
  }

  #match(pattern: RegExp): string | null {
    this.#space();
    const sticky = new RegExp(pattern, 'y');
    sticky.lastIndex = this.#at;
    const found = sticky.exec(this.#text)?.[0] ?? null;
    if (found !== null) this.#at += found.length;
    return found;
  }

  #filtered(): Expression {
    if (++this.#depth > MAX_NESTING) throw new Unresolved('nests too deep');
    let of = this.#primary();
    while (this.#takes('|')) {
      const name = this.#match(/[A-Za-z_][A-Za-z0-9_.]*/);
      if (name === null) throw new Unresolved('has a | without a filter');
      this.#operation();
      of = { kind: 'filter', of, name, arguments: this.#takes('(') ? this.#arguments() : [] };
    }
    this.#depth--;
    return of;
  }

  #arguments(): Argument[] {
    const list: Argument[] = [];
    while (!this.#takes(')')) {
      const named = this.#match(/[A-Za-z_][A-Za-z0-9_]*\s*=(?!=)/);
      list.push({ name: named === null ? null : named.slice(0, -1).trim(), value: this.#filtered() });
      if (this.#takes(',')) continue;
      if (!this.#takes(')')) throw new Unresolved('has filter arguments that fleet-role does not resolve');
      break;
    }
    return list;
  }

  #list(): Expression {
    const items: Expression[] = [];
    while (!this.#takes(']')) {
      items.push(this.#filtered());
      if (this.#takes(',')) continue;
      if (!this.#takes(']')) throw new Unresolved('has a list that fleet-role does not resolve');
      break;
    }
    return { kind: 'list', items };
  }

  #primary(): Expression {
    let of = this.#atom();
    for (;;) {
      if (this.#takes('[')) {
        this.#operation();
        const key = this.#filtered();
        if (!this.#takes(']')) throw new Unresolved('has an index that fleet-role does not resolve');
        of = { kind: 'item', of, key, dotted: false };
      } else if (this.#takes('.')) {
        this.#operation();
        const key = this.#match(/[A-Za-z_][A-Za-z0-9_]*|[0-9]+/);
        if (key === null) throw new Unresolved('has a dot without a name');
        const value = /^[0-9]/.test(key) ? Number(key) : key;
        of = { kind: 'item', of, key: { kind: 'literal', value }, dotted: typeof value === 'string' };
      } else if (this.#takes('(')) throw new Unresolved('calls something, and nothing of an inventory is executed');
      else return of;
    }
  }

  #atom(): Expression {
    const name = this.#match(/[A-Za-z_][A-Za-z0-9_]*/);
    if (name !== null) {
      const constant = CONSTANTS.get(name);
      if (constant !== undefined) return { kind: 'literal', value: constant };
      if (RESERVED.has(name)) throw new Unresolved(`uses ${name}, which fleet-role does not resolve`);
      return { kind: 'name', name };
    }
    const number = this.#match(/-?[0-9]+(?![0-9_.eExXoObB])/);
    if (number !== null) {
      if (/^-?0[0-9]/.test(number) || number.length > 15) throw new Unresolved(`holds the number ${number}`);
      return { kind: 'literal', value: Number(number) };
    }
    const text = this.#match(/'[^'\\]*'|"[^"\\]*"/);
    if (text !== null) return { kind: 'literal', value: text.slice(1, -1) };
    if (this.#takes('[')) return this.#list();
    if (this.#match(/\{\s*\}(?!\})/) !== null) return { kind: 'empty-mapping' };
    if (this.#takes('(')) {
      const inner = this.#filtered();
      if (!this.#takes(')')) throw new Unresolved('has brackets that fleet-role does not resolve');
      return inner;
    }
    const next = this.#text[this.#at];
    throw new Unresolved(
      next === undefined
        ? 'is not closed with }}'
        : `holds ${JSON.stringify(next)}, a form that fleet-role does not resolve`,
    );
  }
}

/** The names that a template refers to, each as often as it does. */
export function namesOf(template: Template): string[] {
  const names: string[] = [];
  const visit = (expression: Expression): void => {
    switch (expression.kind) {
      case 'name':
        names.push(expression.name);
        break;
      case 'item':
        visit(expression.of);
        visit(expression.key);
        break;
      case 'list':
        expression.items.forEach(visit);
        break;
      case 'filter':
        visit(expression.of);
        for (const { value } of expression.arguments) visit(value);
        break;
      default:
    }
  };
  for (const part of template) if (typeof part !== 'string') visit(part);
  return names;
}
