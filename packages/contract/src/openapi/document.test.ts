import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { expect, test } from 'vitest';
import { openApiDocument } from './document.ts';

/** The document as served. */
const document: unknown = JSON.parse(JSON.stringify(openApiDocument('0')));

/** Every object of the document below a place, with its JSON pointer. */
function* objectsIn(value: unknown, pointer = '#'): Generator<readonly [string, Readonly<Record<string, unknown>>]> {
  if (typeof value !== 'object' || value === null) return;
  if (!Array.isArray(value)) yield [pointer, Object.fromEntries(Object.entries(value))];
  for (const [key, member] of Object.entries(value)) {
    yield* objectsIn(member, `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`);
  }
}

const all = [...objectsIn(document)];
/** All root schemas: named ones, and those of parameters, headers and contents. */
const schemas = all.filter(([pointer]) => /^#\/components\/schemas\/[^/]+$|\/schema$/.test(pointer));

function compiler(): Ajv2020 {
  const ajv = addFormats.default(new Ajv2020({ strict: true, strictTypes: false, strictRequired: false }));
  return ajv
    .addVocabulary(['openapi', 'info', 'servers', 'tags', 'paths', 'components'])
    .addSchema(Object(document), 'doc');
}

test('the document is OpenAPI 3.1', async () => {
  const validator = new Validator();
  const { valid, errors } = await validator.validate({ ...Object(document) });
  expect(errors).toBeUndefined();
  expect(valid).toBe(true);
  expect(validator.version).toBe('3.1');
});

test('every schema is valid JSON Schema 2020-12, without unknown keywords or formats', () => {
  const ajv = compiler();
  expect(schemas.length).toBeGreaterThan(100);
  for (const [pointer, schema] of schemas) {
    expect(ajv.validateSchema(schema), pointer).toBe(true);
    expect(() => ajv.compile({ $ref: `doc${encodeURI(pointer)}` }), pointer).not.toThrow();
  }
});

test('bodies and responses may have other members, except those that reject them', () => {
  const kinds = ['tools', 'resources', 'prompts'];
  const closed = all.filter(([, { additionalProperties }]) => additionalProperties === false);
  // All of it: what is misspelled would let somebody in, or nobody.
  const identity = /^#\/components\/schemas\/IdentityInput(?:\/|$)/;
  expect(closed.filter(([pointer]) => identity.test(pointer))).toHaveLength(10);
  expect(closed.map(([pointer]) => pointer).filter((pointer) => !identity.test(pointer))).toEqual([
    '#/components/schemas/BlockInput',
    '#/components/schemas/EvaluatorInput/properties/llm',
    '#/components/schemas/ExposeInput',
    ...kinds.map((kind) => `#/components/schemas/ExposeInput/properties/${kind}`),
    '#/components/schemas/ExposePatch',
    ...kinds.map((kind) => `#/components/schemas/ExposePatch/properties/${kind}/anyOf/0`),
    '#/components/schemas/ForwardPatch',
    '#/components/schemas/ProvisionInput',
    '#/components/schemas/StateInput',
  ]);
});

test('every reference has a target', () => {
  const known = new Set(all.map(([pointer]) => pointer));
  const references = all.flatMap(([, { $ref }]) => (typeof $ref === 'string' ? [$ref] : []));
  expect(references.length).toBeGreaterThan(100);
  expect(references.filter((reference) => !known.has(reference))).toEqual([]);
});

test('every operation has a unique id, and describes each parameter of its path', () => {
  const operations = all.filter(([pointer]) => /^#\/paths\/[^/]+\/[a-z]+$/.test(pointer));
  // Proxied methods are the same for all their paths.
  const isProxied = ([pointer]: (typeof operations)[number]) => /management~1statistics\/(?!get)/.test(pointer);
  const ids = operations.filter((each) => !isProxied(each)).map(([, { operationId }]) => operationId);
  expect(ids).not.toContain(undefined);
  expect(new Set(ids).size).toBe(ids.length);
  for (const [pointer, { parameters = [], responses }] of operations) {
    const inPath = [...pointer.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({ name, in: 'path', required: true }));
    expect(parameters, pointer).toEqual(expect.arrayContaining(inPath.map((each) => expect.objectContaining(each))));
    expect(Object.keys(Object(responses)).length, pointer).toBeGreaterThan(1);
  }
});
