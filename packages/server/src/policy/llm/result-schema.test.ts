import { getEventListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { BusyError, WaitBudget } from '../../http/fair-queue.ts';
import { ResultSchemaError, ResultSchemas } from './result-schema.ts';

const opened: ResultSchemas[] = [];
afterAll(async () => {
  for (const schemas of opened) await schemas.close();
});

/** Generous for a busy machine, where the deadline is not tested. */
function resultSchemas(deadlineMs = 30_000): ResultSchemas {
  const schemas = new ResultSchemas(deadlineMs);
  opened.push(schemas);
  return schemas;
}

/** Most tests need no worker of their own. */
const shared = resultSchemas();

const DRAFT_4 = 'http://json-schema.org/draft-04/schema#';
const VERDICT = {
  type: 'object',
  properties: { verdict: { enum: ['yes', 'no'] }, score: { type: 'number', minimum: 0 } },
  required: ['verdict'],
  additionalProperties: false,
};
/** Takes practically forever for many `a` followed by another character. */
const ENDLESS = { type: 'string', pattern: '^(a+)+$' };
const BAD_FOR_IT = JSON.stringify(`${'a'.repeat(60)}!`);

describe('a text', () => {
  test.each([
    ['that is valid', '{"verdict":"yes","score":1.5}', undefined],
    ['with surrounding whitespace', ' \n{"verdict":"no"}\n', undefined],
    ['in a fence', '```json\n{"verdict":"no"}\n```', undefined],
    ['in a fence with surrounding whitespace', '\n  ```\n{"verdict":"no"}\n```  \n', undefined],
    ['after thinking', '<think>Is "no" right?\n</think>\n{"verdict":"no"}', undefined],
    ['in a fence after thinking', '\n<think></think>```\n{"verdict":"no"}\n```', undefined],
    ['in unclosed thinking', '<think>{"verdict":"no"}', 'the text is not JSON'],
    ['before thinking', '{"verdict":"no"}<think></think>', 'the text is not JSON'],
    ['in a longer fence', '~~~~ json\r\n{"verdict":"no"}\r\n~~~~', undefined],
    ['in two fences', '````\n```\n{"verdict":"no"}\n```\n````', 'the text is not JSON'],
    ['in an unclosed fence', '```json\n{"verdict":"no"}', 'the text is not JSON'],
    ['in a fence with surrounding text', 'Here:\n```json\n{"verdict":"no"}\n```', 'the text is not JSON'],
    ['that is an empty fence', '```\n```', 'the text is not JSON'],
    ['that is empty', '', 'the text is not JSON'],
    ['that is prose', 'yes', 'the text is not JSON'],
    ['of another type', '[]', '/ must be object'],
    ['without a required member', '{}', "/ must have required property 'verdict'"],
    [
      'with several errors',
      '{"verdict":"sk-secret","score":-1,"x":1}',
      '/ must NOT have additional properties; /verdict must be equal to one of the allowed values: "yes","no"; ' +
        '/score must be >= 0',
    ],
    ['with escaped keys', '{"verdict\\u0020":1}', /required property/],
  ])('%s', async (_what, text, problem) => {
    const { validate } = await shared.compile(VERDICT);
    const found = await validate(text);
    if (problem instanceof RegExp) expect(found).toMatch(problem);
    else expect(found).toBe(problem);
  });

  test('has at most ten errors of 300 characters', async () => {
    const { validate } = await shared.compile({ additionalProperties: { type: 'number' } });
    const text = Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`${at}${'😀'.repeat(400)}`, 'x']));
    const errors = (await validate(JSON.stringify(text)))?.split('; ') ?? [];
    expect(errors).toHaveLength(10);
    for (const error of errors) {
      // A surrogate pair is not split.
      expect([299, 300]).toContain(error.length);
      expect(error.isWellFormed()).toBe(true);
    }
  });

  test('lists allowed values within 300 characters', async () => {
    const { validate } = await shared.compile({ enum: Array.from({ length: 200 }, (_, at) => `value ${at}`) });
    const problem = await validate('"x"');
    expect(problem).toMatch(/^\/ must be equal to one of the allowed values: "value 0","value 1",.*…$/);
    expect(problem).toHaveLength(300);
  });

  test('that is nested too deeply for a recursive schema is invalid', async () => {
    const { validate } = await shared.compile({ items: { $ref: '#' } });
    expect(await validate('['.repeat(100_000) + ']'.repeat(100_000))).toBe('the text is nested too deeply');
    expect(await validate('[[1]]')).toBeUndefined();
  });
});

describe('drafts', () => {
  test.each([
    ['2020-12 by default', { prefixItems: [{ type: 'string' }] }],
    ['2020-12', { $schema: 'https://json-schema.org/draft/2020-12/schema', prefixItems: [{ type: 'string' }] }],
    ['2019-09', { $schema: 'https://json-schema.org/draft/2019-09/schema', items: [{ type: 'string' }] }],
    ['07', { $schema: 'http://json-schema.org/draft-07/schema#', items: [{ type: 'string' }] }],
    ['06', { $schema: 'http://json-schema.org/draft-06/schema', items: [{ type: 'string' }] }],
    ['04', { $schema: 'https://json-schema.org/draft-04/schema#', items: [{ type: 'string' }] }],
    ['formats', { items: { format: 'email' } }],
    ['unknown keywords and formats', { 'x-own': 1, format: 'own', items: { type: 'string', format: 'email' } }],
  ])('%s', async (_draft, schema) => {
    const { validate } = await shared.compile(schema);
    expect(await validate('["a@b.example"]')).toBeUndefined();
    expect(await validate('[1]')).toBe(JSON.stringify(schema).includes('"string"') ? '/0 must be string' : undefined);
  });

  test('keywords of one draft are ignored, or differ, in another', async () => {
    const four = await shared.compile({
      $schema: 'http://json-schema.org/draft-04/schema#',
      minimum: 1,
      exclusiveMinimum: true,
    });
    expect(await four.validate('1')).toBe('/ must be > 1');
    const conditional = { if: true, ...Object.fromEntries([['then', false]]) };
    const six = await shared.compile({ $schema: 'http://json-schema.org/draft-06/schema#', ...conditional });
    expect(await six.validate('1')).toBeUndefined();
    const seven = await shared.compile({ $schema: 'http://json-schema.org/draft-07/schema#', ...conditional });
    expect(await seven.validate('1')).toBe('/ boolean schema is false; / must match "then" schema');
  });

  test.each(['2020-12', '2019-09'])('%s, where only own properties are members', async (draft) => {
    const $schema = `https://json-schema.org/draft/${draft}/schema`;
    const typed = await shared.compile({ $schema, properties: { constructor: { type: 'string' } } });
    expect(await typed.validate('{}')).toBeUndefined();
    expect(await typed.validate('{"constructor":1}')).toBe('/constructor must be string');
    const required = await shared.compile({ $schema, required: ['toString'] });
    expect(await required.validate('{}')).toBe("/ must have required property 'toString'");
  });

  test('a boolean', async () => {
    expect(await (await shared.compile(true)).validate('1')).toBeUndefined();
    expect(await (await shared.compile(false)).validate('1')).toBe('/ boolean schema is false');
  });
});

describe('rejects', () => {
  test.each<[string, unknown, string | RegExp]>([
    ['an array', [], 'the schema is neither an object nor a boolean'],
    ['null', null, 'the schema is neither an object nor a boolean'],
    ['a string', 'object', 'the schema is neither an object nor a boolean'],
    [
      'an unknown type',
      { type: 'objekt' },
      /2020-12\/schema\): \/type must be equal to one of the allowed values: "array","boolean",.*; \/type must be array/,
    ],
    [
      'a keyword with a wrong value',
      { required: 'a' },
      /^the schema is not a valid JSON Schema \(.*\): \/required must be array$/,
    ],
    ['an invalid regular expression', { pattern: '(' }, /^the schema .*(regular expression|format "regex")/i],
    ['an unknown draft', { $schema: 'https://example.com/own' }, /unsupported "\$schema" \(https:\/\/example.com/],
    ['the suffix of a known draft', { $schema: 'schema' }, /unsupported "\$schema"/],
    ['a $schema that is not a string', { $schema: 7 }, 'the schema has a "$schema" that is not a string'],
    ['an unresolved reference', { $ref: '#/$defs/a' }, /^the schema can't resolve reference #\/\$defs\/a/],
    ['an asynchronous schema', { $async: true, type: 'string' }, /"\$async"/],
    ['a schema that is nested too deeply', nested(100_000), 'the schema is nested too deeply'],
    [
      'a circular reference',
      { $ref: '#' },
      /^the schema has a circular reference: a \$ref must not lead back to itself/,
    ],
    [
      'a circular reference for strings only',
      { if: { type: 'string' }, else: true, ...Object.fromEntries([['then', { $ref: '#' }]]) },
      /circular reference/,
    ],
    [
      'a reference to a dynamic anchor of a subschema',
      { $dynamicRef: '#node', $defs: { n: { $dynamicAnchor: 'node', type: 'object' } } },
      /circular reference: .* use \$ref with a path/,
    ],
  ])('%s', async (_what, schema, message) => {
    const rejection = shared.compile(schema);
    await expect(rejection).rejects.toThrow(ResultSchemaError);
    await expect(rejection).rejects.toThrow(message);
  });

  test.each([
    [{ $ref: 'https://example.com/other.json' }],
    [{ $ref: 'https://example.com/other.json#/$defs/a' }],
    [{ $ref: 'other.json' }],
    [{ $id: 'https://example.com/own.json', properties: { a: { $ref: 'other.json' } } }],
    [{ $defs: { unused: { $ref: 'file:///etc/passwd' } } }],
    [{ $dynamicRef: 'https://example.com/other.json#a' }],
    [{ $ref: 'https://json-schema.org/draft/2020-12/schema' }],
    [{ $schema: 'https://json-schema.org/draft/2019-09/schema', $recursiveRef: 'https://example.com/other.json' }],
    [{ $ref: 'http://[' }],
  ])('a remote reference: %j', async (schema) => {
    await expect(shared.compile(schema)).rejects.toThrow(/^the schema has a remote reference \(/);
  });
});

test('the problem of a schema has at most 1000 characters', async () => {
  const rejection = shared.compile({ $ref: `https://example.com/${'x'.repeat(2_000)}` });
  await expect(rejection).rejects.toThrow(/^the schema .{999}…$/);
});

describe('references', () => {
  test.each([
    [{ $ref: '#/$defs/n', $defs: { n: { type: 'number' } } }],
    [{ $id: 'https://example.com/own.json', $ref: 'own.json#/$defs/n', $defs: { n: { type: 'number' } } }],
    [{ $ref: 'n.json', $defs: { n: { $id: 'n.json', type: 'number' } } }],
    [{ $ref: '#n', $defs: { n: { $anchor: 'n', type: 'number' } } }],
    [{ $ref: 'urn:x:n', $defs: { n: { $id: 'urn:x:n', type: 'number' } } }],
    [{ $schema: DRAFT_4, $ref: 'urn:x:n', definitions: { n: { id: 'urn:x:n', type: 'number' } } }],
    [{ type: 'number', enum: [1, { $ref: 'https://example.com/' }], default: { $ref: 'https://example.com/' } }],
    [{ type: 'number', const: 1, examples: [{ $ref: 'https://example.com/' }] }],
  ])('within the schema are resolved: %j', async (schema) => {
    const { validate } = await shared.compile(schema);
    expect(await validate('1')).toBeUndefined();
    expect(await validate('"1"')).toMatch(/must be number/);
  });

  test.each([
    [{ type: ['array', 'number'], items: { $ref: '#' } }],
    [{ anyOf: [{ type: 'number' }, { type: 'array', items: { $ref: '#' } }] }],
    [{ $dynamicAnchor: 'node', type: ['array', 'number'], items: { $dynamicRef: '#node' } }],
    [
      {
        $schema: 'https://json-schema.org/draft/2019-09/schema',
        $recursiveAnchor: true,
        type: ['array', 'number'],
        items: { $recursiveRef: '#' },
      },
    ],
  ])('back into the schema are resolved: %j', async (schema) => {
    const { validate } = await shared.compile(schema);
    expect(await validate('[[1],2]')).toBeUndefined();
    expect(await validate('[["1"],2]')).toMatch(/(^|; )\/0\/0 must be (array,)?number/);
  });

  test('do not collide with those of another schema', async () => {
    const $id = 'https://example.com/own.json';
    const [one, other] = await Promise.all([
      shared.compile({ $id, type: 'number' }),
      shared.compile({ $id, type: 'string' }),
    ]);
    expect(await Promise.all([one.validate('1'), other.validate('1')])).toEqual([undefined, '/ must be string']);
    await expect(shared.compile({ $ref: $id })).rejects.toThrow(/remote reference/);
  });
});

describe('concurrent validations', () => {
  test('each have their own result', async () => {
    const schemas = resultSchemas();
    const compiled = await Promise.all(Array.from({ length: 20 }, (_, at) => schemas.compile({ const: at })));
    const found = await Promise.all(
      compiled.flatMap(({ validate }) => Array.from({ length: 20 }, (_, at) => validate(String(at)))),
    );
    const expected = compiled.flatMap((_, of) =>
      Array.from({ length: 20 }, (_, at) => (of === at ? undefined : '/ must be equal to constant')),
    );
    expect(found).toEqual(expected);
  });

  test('more schemas than are cached are usable', { tags: ['slow'] }, async () => {
    const schemas = resultSchemas();
    const compiled = await Promise.all(Array.from({ length: 230 }, (_, at) => schemas.compile({ const: at })));
    for (const at of [0, 29, 30, 229]) {
      expect(await compiled[at]?.validate(String(at))).toBeUndefined();
      expect(await compiled[at]?.validate('-1')).toBe('/ must be equal to constant');
    }
  });
});

describe('a validation that takes too long', () => {
  test('fails, and the next text is validated by a new worker', async () => {
    // With the deadline of the service.
    const schemas = new ResultSchemas();
    opened.push(schemas);
    const { validate } = await schemas.compile(ENDLESS);
    expect(await validate(BAD_FOR_IT)).toBe('validation exceeded 1 s');
    expect(await validate('"aaa"')).toBeUndefined();
    expect(await validate('"b"')).toBe('/ must match pattern "^(a+)+$"');
  });

  test('does not block the event loop', { tags: ['slow'] }, async () => {
    const schemas = new ResultSchemas(600_000);
    const { validate } = await schemas.compile({ type: 'array', uniqueItems: true });
    const items = Array.from({ length: 30_000 }, (_, at) => ({ a: { b: at } }));
    const validated = validate(JSON.stringify(items));
    for (let turn = 0; turn < 5; turn++) await delay(1);
    await schemas.close();
    expect(await validated).toBe('validation was canceled: service is shutting down');
  });

  test('alternates with other schemas', { tags: ['slow'] }, async () => {
    const schemas = resultSchemas(1_000);
    const [endless, quick] = await Promise.all([schemas.compile(ENDLESS), schemas.compile({ type: 'number' })]);
    const order: string[] = [];
    const first = endless.validate(BAD_FOR_IT).then(() => order.push('endless'));
    const second = endless.validate(BAD_FOR_IT).then(() => order.push('endless'));
    const third = quick.validate('1').then((problem) => order.push(`quick ${problem}`));
    await Promise.all([first, second, third]);
    expect(order).toEqual(['endless', 'quick undefined', 'endless']);
  });

  test('makes a schema unusable if it is the compilation', { tags: ['slow'] }, async () => {
    const schemas = resultSchemas(1);
    const wide = { properties: Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`p${at}`, VERDICT])) };
    await expect(schemas.compile(wide)).rejects.toThrow('the schema cannot be used: compilation exceeded 0.001 s');
  });
});

describe('memory', () => {
  test('that a validation exceeds ends the worker only', { tags: ['slow'] }, async () => {
    const wide = Array.from({ length: 200 }, () => ({ type: 'string' }));
    const { validate } = await resultSchemas().compile({ items: { allOf: wide } });
    const problem = await validate(`[${'1,'.repeat(100_000)}1]`);
    expect(problem).toBe('validation ran out of memory');
    expect(await validate('["a"]')).toBeUndefined();
  });
});

describe('a canceled validation', () => {
  const reason = new Error('canceled');
  const rejection = { status: 'rejected', reason };

  test('leaves the queue at once', { tags: ['slow'] }, async () => {
    const schemas = new ResultSchemas(600_000);
    const { validate } = await schemas.compile(ENDLESS);
    const endless = validate(BAD_FOR_IT);
    const leaving = new AbortController();
    const left = Promise.allSettled(Array.from({ length: 1_000 }, (_, at) => validate(`${at}`, leaving.signal)));
    await expect(validate('"a"')).rejects.toBeInstanceOf(BusyError);
    leaving.abort(reason);
    expect(await left).toEqual(Array.from({ length: 1_000 }, () => rejection));
    // The queue has room again.
    const waits = validate('"a"');
    await schemas.close();
    const stopped = 'validation was canceled: service is shutting down';
    expect(await Promise.all([endless, waits])).toEqual([stopped, stopped]);
  });

  test('rejects while it runs, and if it is canceled before', async () => {
    const schemas = new ResultSchemas(600_000);
    const { validate } = await schemas.compile(ENDLESS);
    const leaving = new AbortController();
    const left = validate(BAD_FOR_IT, leaving.signal);
    leaving.abort(reason);
    await expect(left).rejects.toBe(reason);
    await expect(validate('"b"', leaving.signal)).rejects.toBe(reason);
    await schemas.close();
  });

  test('has no cached result', async () => {
    const { validate } = await shared.compile(VERDICT);
    const leaving = new AbortController();
    const left = validate('{"never":1}', leaving.signal);
    leaving.abort(reason);
    await expect(left).rejects.toBe(reason);
    expect(await validate('{"never":1}')).toContain('additional properties');
  });

  test('leaves no listener on the signal, nor does a completed one', async () => {
    const { validate } = await shared.compile(true);
    const leaving = new AbortController();
    const { signal } = leaving;
    await validate('1', signal);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    const left = validate('2', signal);
    leaving.abort(reason);
    await expect(left).rejects.toBe(reason);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });
});

describe('limits', () => {
  test('a text of more than 1 MiB fails without the worker', async () => {
    const schemas = new ResultSchemas(600_000);
    const [endless, any] = await Promise.all([schemas.compile(ENDLESS), schemas.compile(true)]);
    const longest = JSON.stringify('x'.repeat(1024 * 1024 - 2));
    expect(await any.validate(longest)).toBeUndefined();
    const endlessly = endless.validate(BAD_FOR_IT);
    expect(await any.validate(`${longest} `)).toBe('the text is longer than 1048576 characters');
    await schemas.close();
    await endlessly;
  });

  test('1000 texts in the queue; a namespace with less than its share has room', { tags: ['slow'] }, async () => {
    const schemas = resultSchemas();
    const [one, other] = await Promise.all([schemas.compile({ type: 'number' }), schemas.compile({ type: 'string' })]);
    const large = new WaitBudget('large', '');
    // One is in progress.
    const validated = Array.from({ length: 1_001 }, (_, at) => one.validate(`${at}`, undefined, large));
    const beyond = one.validate('"x"', undefined, large);
    const small = other.validate('"x"', undefined, new WaitBudget('small', ''));
    const ends = await Promise.allSettled([...validated, beyond, small]);
    // The newest one made room for the small namespace.
    const displaced = { status: 'rejected', reason: expect.any(BusyError) };
    expect(ends.slice(1_000)).toEqual([displaced, displaced, { status: 'fulfilled', value: undefined }]);
    expect(new Set(ends.slice(0, 1_000).map(({ status }) => status))).toEqual(new Set(['fulfilled']));
    expect(await one.validate('"x"', undefined, large)).toBe('/ must be number');
  });

  test('a text that has waited as long as it may', { tags: ['slow'] }, async () => {
    const schemas = new ResultSchemas(600_000);
    const { validate } = await schemas.compile(ENDLESS);
    const endlessly = validate(BAD_FOR_IT);
    const { signal } = new AbortController();
    await expect(validate('"a"', signal, new WaitBudget('', '', 20))).rejects.toBeInstanceOf(BusyError);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    await schemas.close();
    await endlessly;
  });
});

describe('close', () => {
  test('ends jobs at once, and later jobs fail', async () => {
    const schemas = new ResultSchemas(600_000);
    const { validate } = await schemas.compile(ENDLESS);
    const running = [validate(BAD_FOR_IT), validate(BAD_FOR_IT)];
    await schemas.close();
    const ended = 'validation was canceled: service is shutting down';
    expect(await Promise.all([...running, validate('"a"')])).toEqual([ended, ended, ended]);
    await expect(schemas.compile(true)).rejects.toThrow('compilation was canceled: service is shutting down');
  });

  test('works without a worker', async () => {
    await new ResultSchemas().close();
  });
});

function nested(levels: number): unknown {
  let schema: unknown = true;
  for (let level = 0; level < levels; level++) schema = { not: schema };
  return schema;
}

test('a result is cached, so that a second validation does not wait for the worker', async () => {
  const schemas = resultSchemas();
  const { validate } = await schemas.compile(VERDICT);
  expect(await validate('{}')).toBeDefined();
  const first = await validate('{}');
  await schemas.close();
  // No validation succeeds anymore.
  expect(await validate('{}')).toBe(first);
  expect(await validate('{"a":1}')).toContain('shutting down');
});

test('a schema caches its latest 64 results, of texts of up to 32 KiB', async () => {
  const schemas = resultSchemas();
  const { validate } = await schemas.compile({ type: 'string' });
  const long = JSON.stringify('x'.repeat(32 * 1024 - 2));
  for (const text of [...Array.from({ length: 64 }, (_, at) => `${at}`), long, `${long} `]) await validate(text);
  await schemas.close();
  expect([await validate('1'), await validate('63'), await validate(long)]).toEqual([
    '/ must be string',
    '/ must be string',
    undefined,
  ]);
  for (const text of ['0', `${long} `]) expect(await validate(text)).toContain('shutting down');
});

test('a timeout is cached for five seconds: the machine may have been slow', { tags: ['slow'] }, async () => {
  const schemas = resultSchemas(1_000);
  const { validate } = await schemas.compile(ENDLESS);
  expect(await validate(BAD_FOR_IT)).toBe('validation exceeded 1 s');
  const validatedAt = performance.now();
  await schemas.close();
  const now = vi.spyOn(performance, 'now');
  onTestFinished(() => now.mockRestore());
  now.mockReturnValue(validatedAt + 4_000);
  expect(await validate(BAD_FOR_IT)).toBe('validation exceeded 1 s');
  now.mockReturnValue(validatedAt + 5_000);
  expect(await validate(BAD_FOR_IT)).toContain('shutting down');
});
