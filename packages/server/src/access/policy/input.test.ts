import { Decimal } from '@sluice/cedar/extension-values';
import { CedarRecord, CedarSet, Failure, type Result } from '@sluice/cedar/values';
import { describe, expect, it } from 'vitest';
import { AMBIGUOUS, readInput } from './input.ts';
import { inputTypeOf } from './input-type.ts';

const TYPE = inputTypeOf({
  type: 'object',
  required: ['count', 'note'],
  properties: {
    count: { type: 'integer' },
    price: { type: 'number' },
    note: { type: ['string', 'null'] },
    unit: { enum: ['EUR', 'USD'] },
    prices: { type: 'array', items: { type: 'number' } },
    to: { type: 'object', required: ['fee'], properties: { fee: { type: 'number' } } },
    any: { anyOf: [{ type: 'string' }, { type: 'integer' }] },
  },
});

/** Reads a member of arguments, in a form that can be compared. */
function read(text: string, ...path: readonly string[]): unknown {
  const input = readInput(text, TYPE);
  if (input === AMBIGUOUS) return AMBIGUOUS;
  let value: Result | undefined = input;
  for (const name of path) {
    if (!(value instanceof CedarRecord)) return plain(value);
    value = value.source.get(name);
  }
  return plain(value);
}

function plain(value: Result | undefined): unknown {
  if (value instanceof Decimal) return { decimal: value.amount };
  if (value instanceof Failure) return { failure: value.reason };
  if (value instanceof CedarSet) return value.elements.map(plain);
  if (!(value instanceof CedarRecord)) return value;
  return Object.fromEntries(Array.from(value.source.names(), (name) => [name, plain(value.source.get(name))]));
}

const NOT_EXACT = { failure: 'a number in the arguments cannot be compared exactly' };

describe('the type of arguments', () => {
  it('has what each valid value is, and nothing else', () => {
    const { members } = TYPE;
    expect([...members.keys()]).toEqual(['count', 'price', 'note', 'unit', 'prices', 'to']);
    expect(members.get('count')).toEqual({ type: { kind: 'integer' }, isRequired: true });
    expect(members.get('note')).toEqual({ type: { kind: 'string' }, isRequired: false });
    expect(members.get('unit')).toEqual({ type: { kind: 'string' }, isRequired: false });
  });

  it.each([
    undefined,
    null,
    true,
    [],
    { properties: [] },
    { properties: { a: 1, b: { type: ['string', 'integer'] } } },
  ])('of %j is empty', (schema) => {
    expect(inputTypeOf(schema).members.size).toBe(0);
  });

  it('ends where a schema is deep', () => {
    const deep = Array.from({ length: 20 }).reduce<{ type: string; properties: Record<string, never> }>(
      (inner) => ({ type: 'object', properties: { a: inner as never } }),
      { type: 'object', properties: {} },
    );
    const depthOf = (type: ReturnType<typeof inputTypeOf>): number => {
      const inner = type.members.get('a')?.type;
      return inner?.kind === 'object' ? 1 + depthOf(inner) : 0;
    };
    expect(depthOf(inputTypeOf(deep))).toBe(8);
  });
});

describe('a number', () => {
  it.each<[string, unknown]>([
    ['1', 1],
    ['-0', 0],
    ['1.0', 1],
    ['10e-1', 1],
    ['1E+3', 1_000],
    ['0.5e1', 5],
    ['9223372036854775807', 2n ** 63n - 1n],
    ['-9223372036854775808', -(2n ** 63n)],
    ['9223372036854775808', NOT_EXACT],
    ['9007199254740993', 9_007_199_254_740_993n],
    ['1e400', NOT_EXACT],
    ['1e999999999999', NOT_EXACT],
    ['1.5', { decimal: 15_000 }],
    ['1.23456', NOT_EXACT],
    [`0.${'0'.repeat(100)}`, NOT_EXACT],
    ['0e999999999999', 0],
  ])('%s is an integer if it is one', (text, expected) => {
    expect(read(`{"count":${text}}`, 'count')).toEqual(expected);
    expect(read(`{"other":${text}}`, 'other')).toEqual(expected);
  });

  it.each<[string, unknown]>([
    ['1', { decimal: 10_000 }],
    ['-0.0', { decimal: 0 }],
    ['500.0001', { decimal: 5_000_001 }],
    ['500.00010', { decimal: 5_000_001 }],
    ['5.000001e2', { decimal: 5_000_001 }],
    ['922337203685477.5807', { decimal: 2n ** 63n - 1n }],
    ['922337203685477.5808', NOT_EXACT],
    ['0.00001', NOT_EXACT],
  ])('%s is a decimal if the schema says so', (text, expected) => {
    expect(read(`{"price":${text}}`, 'price')).toEqual(expected);
    expect(read(`{"prices":[${text}]}`, 'prices')).toEqual('failure' in Object(expected) ? expected : [expected]);
    expect(read(`{"to":{"fee":${text}}}`, 'to', 'fee')).toEqual(expected);
  });
});

describe('other values', () => {
  it.each<[string, unknown]>([
    ['"EUR"', 'EUR'],
    ['true', true],
    ['null', { failure: 'an argument is null' }],
    ['"\\ud800"', { failure: 'a text in the arguments is not valid Unicode' }],
    ['"a\\u0000b"', 'a\u0000b'],
    ['[1,"a",[true]]', [1, 'a', [true]]],
    ['[1,null]', { failure: 'an argument is null' }],
    ['[{"a":{"b":null}}]', { failure: 'an argument is null' }],
    ['{"a":null,"b":1}', { a: { failure: 'an argument is null' }, b: 1 }],
    ['{"__entity":{"type":"Sluice::Group","id":"leads"}}', { __entity: { type: 'Sluice::Group', id: 'leads' } }],
    ['{"__extn":{"fn":"decimal","arg":"1.0"}}', { __extn: { fn: 'decimal', arg: '1.0' } }],
    ['{"service_auth_x":1}', { service_auth_x: 1 }],
  ])('%s', (text, expected) => {
    expect(read(`{"any":${text}}`, 'any')).toEqual(expected);
  });

  it('whose names are those of every object are members only if they were sent', () => {
    expect(read('{"count":1}', 'constructor')).toBeUndefined();
    expect(read('{"__proto__":{"admin":true},"constructor":1}', '__proto__', 'admin')).toBe(true);
    expect(read('{}', '__proto__')).toBeUndefined();
  });

  it('that the service reads itself are absent', () => {
    expect(read('{"service_auth_token":"secret","count":1}')).toEqual({ count: 1 });
    expect(read('{"service_auth_token":"secret"}', 'service_auth_token')).toBeUndefined();
  });
});

describe('too much to read', () => {
  it('fails as a whole with many values', () => {
    expect(read(`{"any":[${'1,'.repeat(10_000)}1]}`)).toEqual({ failure: 'the arguments have more than 10000 values' });
    expect(read(`{"any":"${','.repeat(100_000)}"}`, 'any')).toHaveLength(100_000);
  });

  it('fails where it is deep, and only there', () => {
    const text = `{"count":1,"any":${'['.repeat(40)}${']'.repeat(40)}}`;
    expect(read(text, 'any')).toEqual({ failure: 'an argument is nested more than 32 levels deep' });
    expect(read(text, 'count')).toBe(1);
  });
});

describe('names that some server takes for the same', () => {
  it.each([
    '{"count":1,"count":2}',
    '{"count":1,"Count":2}',
    '{"Count":1}',
    '{"COUNT":1}',
    '{"count\\u0000x":1}',
    '{"c\\u006funt":1,"count":2}',
    '{"\uff43ount":1}',
    '{"other":1,"OTHER":2}',
    '{"stra\u00dfe":1,"STRASSE":2}',
    '{"\u212a":1,"k":2}',
    '{"\u017f":1,"s":2}',
    '{"\u00e9":1,"e\u0301":2}',
    '{"other":{"a":1,"A":2}}',
    '{"other":[[{"a":1,"A":2}]]}',
    '{"to":{"Fee":1}}',
    '{"to":{"fee":1,"\\u0066ee":2}}',
  ])('make %s ambiguous', (text) => {
    expect(read(text)).toBe(AMBIGUOUS);
  });

  it.each(['{"count":1,"counts":2}', '{"c\\u006funt":1}', '{"other":{"count":1},"to":{"fee":1}}', '{"any":{"Fee":1}}'])(
    'do not occur in %s',
    (text) => {
      expect(read(text)).not.toBe(AMBIGUOUS);
    },
  );
});
