import { describe, expect, test } from 'vitest';
import {
  activationInput,
  bindingInput,
  type EvaluatorInput,
  evaluatorInput,
  evaluatorsInput,
  validate,
} from '../index.ts';

const LEAST = {
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
    expect(evaluatorInput.parse(LEAST)).toEqual({
      ...LEAST,
      trigger: { method: 'tools/call', namespace: null },
      llm: { ...LEAST.llm, result_schema: null },
      on_error: 'continue',
    });
  });

  test('can be submitted as returned', () => {
    const responded = evaluatorInput.parse({ ...LEAST, on_error: 'block', trigger: { method: 'm', namespace: 'ops' } });
    expect(evaluatorInput.parse(responded)).toEqual(responded);
    const least = evaluatorInput.parse(LEAST);
    expect(evaluatorInput.parse(least)).toEqual(least);
  });

  test('keeps its schema unchanged, and spaces in the path of its action', () => {
    const schema = { type: 'object', maximum: JSON.rawJSON('1.0') };
    const { llm, processor } = evaluatorInput.parse({
      ...LEAST,
      llm: { ...LEAST.llm, result_schema: schema },
      processor: { path: ' a.wasm ' },
    });
    expect(llm.result_schema).toBe(schema);
    expect(processor.path).toBe(' a.wasm ');
  });

  test('drops unknown members and trims names', () => {
    const submitted = { ...LEAST, name: ' gate\t', note: 1, trigger: { method: ' m ', tool: 't' } };
    expect(evaluatorInput.parse(submitted)).toEqual({
      ...evaluatorInput.parse(LEAST),
      trigger: { method: 'm', namespace: null },
    });
  });

  test.each(['model', 'url', 'api_key', 'resultSchema', '__proto__', 'constructor'])(
    'is rejected with %s beside the prompt, and the value is not repeated',
    (member) => {
      const llm: unknown = JSON.parse(`{${JSON.stringify(LEAST.llm).slice(1, -1)},"${member}":"s3cret"}`);
      const issues = expectRejected({ ...LEAST, llm });
      expect([...issues]).toEqual([
        [`llm.${member}`, expect.stringMatching(/^is not a known field; known fields: operation, /)],
      ]);
      expect(JSON.stringify([...issues])).not.toContain('s3cret');
    },
  );

  test('is accepted if only the service can reject it', () => {
    for (const odd of [
      { ...LEAST, name: ' ' },
      { ...LEAST, trigger: { method: '', namespace: 'No Namespace!' } },
      { ...LEAST, llm: { ...LEAST.llm, connection: '', prompt: '', result_schema: { type: 'nonsense' } } },
    ]) {
      expect(expectRejected(odd)).toEqual(new Map());
    }
  });

  test.each([
    ['name', { ...LEAST, name: undefined }],
    ['name', { ...LEAST, name: 'x'.repeat(257) }],
    ['name', { ...LEAST, name: 'a\nb' }],
    ['trigger', { ...LEAST, trigger: undefined }],
    ['trigger.method', { ...LEAST, trigger: {} }],
    ['trigger.namespace', { ...LEAST, trigger: { method: 'm', namespace: 5 } }],
    ['llm', { ...LEAST, llm: 'main' }],
    ['llm.operation', { ...LEAST, llm: { ...LEAST.llm, operation: 'decide' } }],
    ['llm.prompt', { ...LEAST, llm: { ...LEAST.llm, prompt: undefined } }],
    ['llm.connection', { ...LEAST, llm: { ...LEAST.llm, connection: null } }],
    ['llm.result_schema', { ...LEAST, llm: { ...LEAST.llm, result_schema: true } }],
    ['processor.path', { ...LEAST, processor: {} }],
    ['on_error', { ...LEAST, on_error: 'stop' }],
    ['on_error', { ...LEAST, on_error: null }],
  ])('is rejected for its %s', (path, evaluator) => {
    expect([...expectRejected(evaluator).keys()]).toEqual([path]);
  });
});

test('an update reports the invalid members of each evaluator', () => {
  expect(validate(evaluatorsInput, {})).toEqual({ issues: [{ path: 'evaluators', message: 'is required' }] });
  expect(validate(evaluatorsInput, { evaluators: [LEAST, { ...LEAST, processor: undefined }] })).toEqual({
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
  for (const wrong of [-1, 1.5, '7', null, true]) expect(read(wrong), String(wrong)).toBeUndefined();
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
