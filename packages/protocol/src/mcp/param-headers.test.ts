import { describe, expect, it } from 'vitest';
import { decodeHeaderValue, encodeHeaderValue, readParamHeaders } from './param-headers.ts';

const region = { type: 'string', 'x-mcp-header': 'Region' };

describe('readParamHeaders', () => {
  it('finds the annotated properties and their paths, including nested ones', () => {
    const found = readParamHeaders({
      type: 'object',
      properties: {
        region,
        query: { type: 'string' },
        options: { type: 'object', properties: { 'dry.run': { type: 'boolean', 'x-mcp-header': 'Dry-Run' } } },
        shards: { type: 'integer', 'x-mcp-header': 'Shards' },
      },
    });
    expect(found.valid && found.headers.toSorted((a, b) => (a.header < b.header ? -1 : 1))).toEqual([
      { header: 'Mcp-Param-Dry-Run', path: ['options', 'dry.run'] },
      { header: 'Mcp-Param-Region', path: ['region'] },
      { header: 'Mcp-Param-Shards', path: ['shards'] },
    ]);
  });

  it.each([
    ['no schema', undefined],
    ['a schema without annotations', { type: 'object', properties: { a: { type: 'string' } } }],
    ['a property that is called like the annotation', { properties: { 'x-mcp-header': { type: 'string' } } }],
    ['example values that look like one', { properties: { a: { default: { 'x-mcp-header': '' }, enum: [region] } } }],
  ])('finds none in %s', (_what, schema) => {
    expect(readParamHeaders(schema)).toEqual({ valid: true, headers: [] });
  });

  it.each([
    ['an empty name', { properties: { a: { type: 'string', 'x-mcp-header': '' } } }],
    ['a name with a space', { properties: { a: { type: 'string', 'x-mcp-header': 'My Region' } } }],
    ['a name with a line break', { properties: { a: { type: 'string', 'x-mcp-header': 'A\r\nB: c' } } }],
    ['a name with a colon', { properties: { a: { type: 'string', 'x-mcp-header': 'A:' } } }],
    ['a name that is not ASCII', { properties: { a: { type: 'string', 'x-mcp-header': 'Région' } } }],
    ['a name that is not a string', { properties: { a: { type: 'string', 'x-mcp-header': 1 } } }],
    ['names equal but for case', { properties: { a: region, b: { type: 'string', 'x-mcp-header': 'REGION' } } }],
    ['type number', { properties: { a: { type: 'number', 'x-mcp-header': 'A' } } }],
    ['type object', { properties: { a: { type: 'object', 'x-mcp-header': 'A' } } }],
    ['no type', { properties: { a: { 'x-mcp-header': 'A' } } }],
    ['the root', { type: 'string', 'x-mcp-header': 'A' }],
    ['items', { properties: { a: { type: 'array', items: region } } }],
    ['items as an array', { properties: { a: { type: 'array', items: [region] } } }],
    ['properties under items', { properties: { a: { items: { properties: { region } } } } }],
    ['oneOf', { oneOf: [{ properties: { region } }] }],
    ['not', { not: { properties: { region } } }],
    ['else', { if: {}, else: { properties: { region } } }],
    ['$defs', { $defs: { r: region }, properties: { a: { $ref: '#/$defs/r' } } }],
    ['patternProperties', { patternProperties: { '^r': region } }],
    ['additionalProperties', { additionalProperties: region }],
  ])('rejects %s', (_what, schema) => {
    expect(readParamHeaders(schema)).toEqual({ valid: false, reason: expect.stringContaining('x-mcp-header') });
  });

  it('survives a schema nested deeper than the stack', () => {
    const depth = 100_000;
    const schema: unknown = JSON.parse(`${'{"properties":{"a":'.repeat(depth)}{}${'}}'.repeat(depth)}`);
    const started = performance.now();
    expect(readParamHeaders(schema).valid).toBe(true);
    expect(performance.now() - started).toBeLessThan(5_000);
  });
});

describe('header values', () => {
  // The protocol's examples, and other values that do not fit a header.
  it.each([
    ['us-west1', 'us-west1'],
    ['Hello, 世界', '=?base64?SGVsbG8sIOS4lueVjA==?='],
    [' padded ', '=?base64?IHBhZGRlZCA=?='],
    ['line1\nline2', '=?base64?bGluZTEKbGluZTI=?='],
    ['=?base64?literal?=', '=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?='],
    ['two words\tand a tab', 'two words\tand a tab'],
    ['', '=?base64??='],
    ['=?base64?=', '=?base64?PT9iYXNlNjQ/PQ==?='],
  ])('encode %j as %j and read it back', (text, encoded) => {
    expect(encodeHeaderValue(text)).toBe(encoded);
    expect(decodeHeaderValue(encoded)).toBe(text);
  });

  it.each(['=?base64?a?=', '=?base64?YQ=?=', '=?base64?_-8=?=', '=?base64?/w==?=', 'caf\u00e9', 'a\u0001'])(
    'reject %j',
    (value) => {
      expect(decodeHeaderValue(value)).toBeUndefined();
    },
  );
});
