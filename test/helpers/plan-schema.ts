import { readFileSync } from 'node:fs';
import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js';

const schema = JSON.parse(readFileSync(new URL('../plan.schema.json', import.meta.url), 'utf8'));
const validate = new Ajv2020({ allErrors: true, strict: true, strictTypes: false }).compile(schema);

/**
 * Throws unless `json` is a plan by `test/plan.schema.json`, its keys stand in the schema's order, and its steps are
 * numbered from 1 in each cluster. Takes the `plan` output's text as well as its value.
 */
export function expectValidPlan(json: unknown): void {
  const plan: unknown = typeof json === 'string' ? JSON.parse(json) : json;
  if (!validate(plan)) {
    const lines = (validate.errors ?? []).map((error: ErrorObject) => `${error.instancePath || '/'} ${error.message}`);
    throw new Error(`not a plan by test/plan.schema.json:\n${lines.join('\n')}`);
  }
  expectOrder(plan, schema, '');
  for (const cluster of (plan as { clusters: { name: string; steps: { number: number }[] }[] }).clusters) {
    const numbers = cluster.steps.map(({ number }) => number);
    if (numbers.some((number, index) => number !== index + 1)) {
      throw new Error(`the steps of ${cluster.name} are numbered ${numbers.join(', ')}`);
    }
  }
}

interface SchemaNode {
  $ref?: string;
  anyOf?: SchemaNode[];
  items?: SchemaNode;
  properties?: Record<string, SchemaNode>;
}

/** JSON Schema cannot say in which order keys come, and section 5 does. */
function expectOrder(value: unknown, node: SchemaNode | undefined, path: string): void {
  if (node === undefined || typeof value !== 'object' || value === null) return;
  if (node.$ref !== undefined) {
    expectOrder(value, schema.$defs[node.$ref.slice('#/$defs/'.length)], path);
  } else if (node.anyOf !== undefined) {
    expectOrder(value, node.anyOf[0], path);
  } else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) expectOrder(item, node.items, `${path}/${index}`);
  } else {
    const keys = Object.keys(value);
    const wanted = Object.keys(node.properties ?? {});
    if (keys.join() !== wanted.join()) {
      throw new Error(`the keys of ${path || '/'} come as ${keys.join(', ')}, not as ${wanted.join(', ')}`);
    }
    for (const [key, member] of Object.entries(value)) expectOrder(member, node.properties?.[key], `${path}/${key}`);
  }
}
