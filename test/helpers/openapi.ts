import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { Ajv, type ValidateFunction } from 'ajv';
import addFormats from 'ajv-formats';

/** A node of the OpenAPI description, which is read as it comes. */
// biome-ignore lint/suspicious/noExplicitAny: the description is 13 MB of JSON without a type of its own
type Node = any;

export interface Operation {
  readonly method: string;
  /** As in the description, e.g. `/repos/{owner}/{repo}/check-runs`. */
  readonly path: string;
  /** Decoded path parameters. */
  readonly parameters: Readonly<Record<string, string>>;
}

/** One thing that is wrong with a request or an answer, in words for the person who reads the failed test. */
export type Wrong = string;

interface Route {
  readonly path: string;
  readonly names: readonly string[];
  readonly pattern: RegExp;
  readonly literals: number;
}

/** Keywords of JSON Schema; the rest of an OpenAPI schema (examples, titles, extensions) decides nothing. */
const KEYWORDS = new Set(
  (
    'type properties required items enum oneOf anyOf allOf not additionalProperties minimum maximum minLength ' +
    'maxLength minItems maxItems uniqueItems pattern format multipleOf minProperties maxProperties'
  ).split(' '),
);

/**
 * GitHub's own description of its REST API, from npm @octokit/openapi: finds the operation of a request and checks
 * parameters, bodies and answers against it. It is read once, when it is first needed (about 150 ms), and each schema
 * is compiled when it is first used. Stricter than GitHub in one thing: a body or query parameter that the description
 * does not know is wrong, since GitHub would ignore it silently.
 */
export class OpenApi {
  readonly #document: Node;
  readonly #routes: Route[];
  readonly #ajv: Ajv;
  readonly #compiled = new Map<string, ValidateFunction>();

  private constructor() {
    const require = createRequire(import.meta.url);
    this.#document = JSON.parse(
      readFileSync(require.resolve('@octokit/openapi/generated/api.github.com.json'), 'utf8'),
    );
    this.#routes = Object.keys(this.#document.paths).map((path) => this.#route(path));
    // A literal segment beats a parameter: /commits/{ref}/pulls before /commits/{ref}.
    this.#routes.sort((a, b) => b.literals - a.literals);
    this.#ajv = new Ajv({ strict: false, allErrors: true, coerceTypes: false });
    // The package is CommonJS: its callable is behind `default` for the compiler, and the module itself for Node.
    (addFormats as unknown as (ajv: Ajv) => void)(this.#ajv);
  }

  static #shared: OpenApi | undefined;

  /** The one description of this process. */
  static shared(): OpenApi {
    OpenApi.#shared ??= new OpenApi();
    return OpenApi.#shared;
  }

  /** The operation of a method and a path (still encoded, without query), or null when GitHub has none. */
  find(method: string, path: string): Operation | null {
    for (const route of this.#routes) {
      const match = route.pattern.exec(path);
      if (match === null || this.#document.paths[route.path][method.toLowerCase()] === undefined) continue;
      const parameters = Object.fromEntries(
        route.names.map((name, i) => [name, decodeURIComponent(match[i + 1] as string)]),
      );
      return { method: method.toUpperCase(), path: route.path, parameters };
    }
    return null;
  }

  /** What is wrong with path parameters, query and body of a request; empty when all is well. */
  checkRequest(operation: Operation, query: URLSearchParams, body: unknown): Wrong[] {
    const description = this.#operation(operation);
    const wrong: Wrong[] = [];
    const known = new Map<string, Node>();
    for (const given of description.parameters ?? []) {
      const parameter = this.#resolve(given);
      if (parameter.in === 'query') known.set(parameter.name, parameter);
      if (parameter.in === 'path' && operation.parameters[parameter.name] !== undefined) {
        wrong.push(
          ...this.#checkText(
            `path parameter ${parameter.name}`,
            parameter,
            operation.parameters[parameter.name] as string,
          ),
        );
      }
    }
    for (const [name, value] of query) {
      const parameter = known.get(name);
      if (parameter === undefined) wrong.push(`query parameter ${name} is not described`);
      else wrong.push(...this.#checkText(`query parameter ${name}`, parameter, value));
    }
    for (const [name, parameter] of known) {
      if (parameter.required && !query.has(name)) wrong.push(`query parameter ${name} is missing`);
    }
    const schema = description.requestBody?.content?.['application/json']?.schema;
    if (schema === undefined) {
      if (body !== undefined) wrong.push('a body was sent where none is described');
    } else if (body !== undefined) {
      wrong.push(
        ...this.#check(`${operation.method} ${operation.path} body`, schema, body, true).map((w) => `body${w}`),
      );
    } else if (description.requestBody.required === true) wrong.push('the body is missing');
    return wrong;
  }

  /** What is wrong with an answer's body for this status; empty when nothing is described for it. */
  checkAnswer(operation: Operation, status: number, body: unknown): Wrong[] {
    const schema = this.#answerSchema(operation, status);
    if (schema === undefined) return [];
    return this.#check(`${operation.method} ${operation.path} ${status}`, schema, body, false).map((w) => `answer${w}`);
  }

  /**
   * A smallest value that satisfies the schema of a component such as `pull-request-simple`: required members only,
   * null where null is allowed. Endpoints lay what they know over it.
   */
  sample(component: string): Node {
    const schema = { ...this.#document.components.schemas[component], nullable: false };
    return sampleOf(schema, (node) => this.#resolve(node));
  }

  #operation(operation: Operation): Node {
    return this.#document.paths[operation.path][operation.method.toLowerCase()];
  }

  #answerSchema(operation: Operation, status: number): Node {
    const answer = this.#resolve(this.#operation(operation).responses?.[String(status)] ?? {});
    return answer.content?.['application/json']?.schema;
  }

  #resolve(node: Node): Node {
    let found = node;
    while (typeof found?.$ref === 'string') {
      found = found.$ref
        .slice(2)
        .split('/')
        .reduce((at: Node, key: string) => at[key.replaceAll('~1', '/').replaceAll('~0', '~')], this.#document);
    }
    return found;
  }

  #route(path: string): Route {
    const names: string[] = [];
    const methods: Node[] = Object.values(this.#document.paths[path]);
    const wide = new Set<string>();
    for (const method of methods) {
      for (const given of method.parameters ?? []) {
        const parameter = this.#resolve(given);
        if (parameter['x-multi-segment'] === true) wide.add(parameter.name);
      }
    }
    const pattern = path.replace(/\{([^}]+)\}|[^{]+/g, (text, name: string | undefined) => {
      if (name === undefined) return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
      names.push(name);
      // GitHub takes a ref with its slashes, encoded or not.
      return wide.has(name) || name === 'ref' || name === 'base' || name === 'head' ? '(.+)' : '([^/]+)';
    });
    return { path, names, pattern: new RegExp(`^${pattern}$`), literals: path.replace(/\{[^}]+\}/g, '').length };
  }

  #checkText(what: string, parameter: Node, text: string): Wrong[] {
    const schema = this.#resolve(parameter.schema ?? {});
    let value: unknown = text;
    if (schema.type === 'integer' || schema.type === 'number') value = /^-?\d+$/.test(text) ? Number(text) : text;
    if (schema.type === 'boolean') value = text === 'true' ? true : text === 'false' ? false : text;
    if (schema.type === 'array') return [];
    return this.#check(`${what} ${JSON.stringify(schema)}`, schema, value, false).map((w) => `${what}${w}`);
  }

  #check(key: string, schema: Node, value: unknown, closed: boolean): Wrong[] {
    let validate = this.#compiled.get(key);
    if (validate === undefined) {
      validate = this.#ajv.compile(this.#toJsonSchema(schema, closed));
      this.#compiled.set(key, validate);
    }
    if (validate(value)) return [];
    return (validate.errors ?? []).map((e) => {
      const extra = e.params.additionalProperty ?? e.params.allowedValues ?? '';
      return `${e.instancePath} ${e.message ?? 'is wrong'}${extra === '' ? '' : ` (${extra})`}`;
    });
  }

  /** OpenAPI 3.0 to JSON Schema: `nullable` becomes a choice, components become definitions of the one schema. */
  #toJsonSchema(schema: Node, closed: boolean): Node {
    const definitions: Record<string, Node> = {};
    const convert = (node: Node): Node => {
      if (typeof node.$ref === 'string') {
        const name = node.$ref.slice(node.$ref.lastIndexOf('/') + 1);
        if (!(name in definitions)) {
          definitions[name] = true;
          definitions[name] = convert(this.#resolve(node));
        }
        return { $ref: `#/definitions/${name}` };
      }
      const out: Node = {};
      for (const [key, value] of Object.entries<Node>(node)) {
        if (!KEYWORDS.has(key)) continue;
        if (key === 'properties') {
          out.properties = Object.fromEntries(Object.entries(value).map(([name, member]) => [name, convert(member)]));
        } else if (key === 'oneOf' || key === 'anyOf' || key === 'allOf') {
          // GitHub's alternatives overlap (an integer is a number), which `oneOf` forbids.
          out[key === 'oneOf' ? 'anyOf' : key] = value.map(convert);
        } else if ((key === 'items' || key === 'not' || key === 'additionalProperties') && typeof value === 'object') {
          out[key] = convert(value);
        } else out[key] = value;
      }
      if (closed && out.properties !== undefined && out.additionalProperties === undefined && out.allOf === undefined) {
        out.additionalProperties = false;
      }
      return node.nullable === true ? { anyOf: [out, { type: 'null' }] } : out;
    };
    const root = convert(schema);
    return { ...(root.$ref === undefined ? root : { allOf: [root] }), definitions };
  }
}

function sampleOf(given: Node, resolve: (node: Node) => Node): Node {
  const node = resolve(given);
  if (node.nullable === true) return null;
  if (node.enum !== undefined) return node.enum[0];
  if (node.allOf !== undefined) return Object.assign({}, ...node.allOf.map((n: Node) => sampleOf(n, resolve)));
  const choice = node.oneOf ?? node.anyOf;
  if (choice !== undefined && node.properties === undefined) return sampleOf(choice[0], resolve);
  switch (node.type) {
    case 'object':
    case undefined:
      return Object.fromEntries(
        (node.required ?? []).map((name: string) => [name, sampleOf(node.properties?.[name] ?? {}, resolve)]),
      );
    case 'array':
      return Array.from({ length: node.minItems ?? 0 }, () => sampleOf(node.items, resolve));
    case 'string':
      return node.format === 'uri'
        ? 'https://example.com/'
        : node.format === 'date-time'
          ? '2026-01-01T00:00:00Z'
          : 'x';
    case 'boolean':
      return false;
    default:
      return node.minimum ?? 1;
  }
}
