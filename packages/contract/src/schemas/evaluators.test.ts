import { describe, expect, test } from 'vitest';
import {
  activationInput,
  bindingInput,
  type EvaluatorInput,
  evaluatorInput,
  evaluatorsInput,
  validate,
} from '../index.ts';

const MINIMAL = {
  name: 'gate',
  trigger: { method: 'tools/call' },
  llm: { operation: 'classify', prompt: 'Is it safe?', connection: 'main' },
  processor: { path: 'actions/gate.wasm' },
} satisfies EvaluatorInput;

/** Errors of an evaluator, by path. */
function expectRejected(evaluator: unknown): Map<string, string> {
  const result = validate(evaluatorInput, evaluator);
  return new Map('issues' in result ? result.issues.map(({ path, message }) => [path, message]) : []);
}

describe('an evaluator', () => {
  test('gets defaults for missing members', () => {
    expect(evaluatorInput.parse(MINIMAL)).toEqual({
      ...MINIMAL,
      trigger: { method: 'tools/call', namespace: null },
      llm: { ...MINIMAL.llm, result_schema: null },
      on_error: 'continue',
    });
  });

  test('can be submitted as returned', () => {
    const responded = evaluatorInput.parse({
      ...MINIMAL,
      on_error: 'block',
      trigger: { method: 'm', namespace: 'ops' },
    });
    expect(evaluatorInput.parse(responded)).toEqual(responded);
    const minimal = evaluatorInput.parse(MINIMAL);
    expect(evaluatorInput.parse(minimal)).toEqual(minimal);
  });

  test('keeps its schema unchanged, and spaces in the path of its action', () => {
    const schema = { type: 'object', maximum: JSON.rawJSON('1.0') };
    const { llm, processor } = evaluatorInput.parse({
      ...MINIMAL,
      llm: { ...MINIMAL.llm, result_schema: schema },
      processor: { path: ' a.wasm ' },
    });
    expect(llm.result_schema).toBe(schema);
    expect(processor.path).toBe(' a.wasm ');
  });

  test('drops unknown members and trims names', () => {
    const submitted = { ...MINIMAL, name: ' gate\t', note: 1, trigger: { method: ' m ', tool: 't' } };
    expect(evaluatorInput.parse(submitted)).toEqual({
      ...evaluatorInput.parse(MINIMAL),
      trigger: { method: 'm', namespace: null },
    });
  });

  test.each(['model', 'url', 'api_key', 'resultSchema', '__proto__', 'constructor'])(
    'is rejected with %s beside the prompt, and the value is not repeated',
    (member) => {
      const llm: unknown = JSON.parse(`{${JSON.stringify(MINIMAL.llm).slice(1, -1)},"${member}":"s3cret"}`);
      const issues = expectRejected({ ...MINIMAL, llm });
      expect([...issues]).toEqual([
        [`llm.${member}`, expect.stringMatching(/^is not a known field; known fields: operation, /)],
      ]);
      expect(JSON.stringify([...issues])).not.toContain('s3cret');
    },
  );

  test('is accepted if only the service can reject it', () => {
    for (const invalid of [
      { ...MINIMAL, name: ' ' },
      { ...MINIMAL, trigger: { method: '', namespace: 'No Namespace!' } },
      { ...MINIMAL, llm: { ...MINIMAL.llm, connection: '', prompt: '', result_schema: { type: 'nonsense' } } },
    ]) {
      expect(expectRejected(invalid)).toEqual(new Map());
    }
  });

  test.each([
    ['name', { ...MINIMAL, name: undefined }],
    ['name', { ...MINIMAL, name: 'x'.repeat(257) }],
    ['name', { ...MINIMAL, name: 'a\nb' }],
    ['trigger', { ...MINIMAL, trigger: undefined }],
    ['trigger.method', { ...MINIMAL, trigger: {} }],
    ['trigger.namespace', { ...MINIMAL, trigger: { method: 'm', namespace: 5 } }],
    ['llm', { ...MINIMAL, llm: 'main' }],
    ['llm.operation', { ...MINIMAL, llm: { ...MINIMAL.llm, operation: 'decide' } }],
    ['llm.prompt', { ...MINIMAL, llm: { ...MINIMAL.llm, prompt: undefined } }],
    ['llm.connection', { ...MINIMAL, llm: { ...MINIMAL.llm, connection: null } }],
    ['llm.result_schema', { ...MINIMAL, llm: { ...MINIMAL.llm, result_schema: true } }],
    ['processor.path', { ...MINIMAL, processor: {} }],
    ['on_error', { ...MINIMAL, on_error: 'stop' }],
    ['on_error', { ...MINIMAL, on_error: null }],
  ])('is rejected for its %s', (path, evaluator) => {
    expect([...expectRejected(evaluator).keys()]).toEqual([path]);
  });
});

test('an update reports the invalid members of each evaluator', () => {
  expect(validate(evaluatorsInput, {})).toEqual({ issues: [{ path: 'evaluators', message: 'is required' }] });
  expect(validate(evaluatorsInput, { evaluators: [MINIMAL, { ...MINIMAL, processor: undefined }] })).toEqual({
    issues: [{ path: 'evaluators.1.processor', message: 'is required' }],
  });
  expect(validate(evaluatorsInput, { evaluators: Array.from({ length: 1_001 }, () => 5) })).toEqual({
    issues: [{ path: 'evaluators', message: 'must have at most 1000 elements' }],
  });
  expect(evaluatorsInput.parse({ evaluators: [] })).toEqual({ evaluators: [] });
});

test.each([evaluatorsInput, activationInput])('the expected revision is a whole number in any notation', (schema) => {
  const read = (expected_revision: unknown) => schema.safeParse({ evaluators: [], expected_revision }).data;
  expect(read(JSON.rawJSON('7.0'))?.expected_revision).toBe(7);
  expect(read(0)?.expected_revision).toBe(0);
  for (const invalid of [-1, 1.5, '7', null, true]) expect(read(invalid), String(invalid)).toBeUndefined();
});

test('a conversation id has 1 to 256 characters, whatever their number of code units', () => {
  const accepts = (conversation_id: unknown) => bindingInput.safeParse({ conversation_id }).success;
  expect([accepts('c'), accepts('😀'.repeat(256))]).toEqual([true, true]);
  expect([accepts(''), accepts('😀'.repeat(257)), accepts(5), accepts(undefined)]).toEqual([
    false,
    false,
    false,
    false,
  ]);
});
