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

/** What is refused of an evaluator, by path. */
function refused(evaluator: unknown): Map<string, string> {
  const result = validate(evaluatorInput, evaluator);
  return new Map('issues' in result ? result.issues.map(({ path, message }) => [path, message]) : []);
}

describe('an evaluator', () => {
  test('gets the members that it was submitted without', () => {
    expect(evaluatorInput.parse(LEAST)).toEqual({
      ...LEAST,
      trigger: { method: 'tools/call', namespace: null },
      llm: { ...LEAST.llm, result_schema: null },
      on_error: 'continue',
    });
  });

  test('can be submitted as it is answered', () => {
    const answered = evaluatorInput.parse({ ...LEAST, on_error: 'block', trigger: { method: 'm', namespace: 'ops' } });
    expect(evaluatorInput.parse(answered)).toEqual(answered);
    const least = evaluatorInput.parse(LEAST);
    expect(evaluatorInput.parse(least)).toEqual(least);
  });

  test('keeps its schema as it is, and the path of its action with its blanks', () => {
    const schema = { type: 'object', maximum: JSON.rawJSON('1.0') };
    const { llm, processor } = evaluatorInput.parse({
      ...LEAST,
      llm: { ...LEAST.llm, result_schema: schema },
      processor: { path: ' a.wasm ' },
    });
    expect(llm.result_schema).toBe(schema);
    expect(processor.path).toBe(' a.wasm ');
  });

  test('loses what nobody knows, and blanks around names', () => {
    const submitted = { ...LEAST, name: ' gate\t', note: 1, trigger: { method: ' m ', tool: 't' } };
    expect(evaluatorInput.parse(submitted)).toEqual({
      ...evaluatorInput.parse(LEAST),
      trigger: { method: 'm', namespace: null },
    });
  });

  test.each(['model', 'url', 'api_key', 'resultSchema', '__proto__', 'constructor'])(
    'is refused with %s beside the prompt, and the value is not repeated',
    (member) => {
      const llm: unknown = JSON.parse(`{${JSON.stringify(LEAST.llm).slice(1, -1)},"${member}":"s3cret"}`);
      const issues = refused({ ...LEAST, llm });
      expect([...issues]).toEqual([
        [`llm.${member}`, expect.stringMatching(/^is not a known field; known fields: operation, /)],
      ]);
      expect(JSON.stringify([...issues])).not.toContain('s3cret');
    },
  );

  test('is not refused for what the service judges', () => {
    for (const odd of [
      { ...LEAST, name: ' ' },
      { ...LEAST, trigger: { method: '', namespace: 'No Namespace!' } },
      { ...LEAST, llm: { ...LEAST.llm, connection: '', prompt: '', result_schema: { type: 'nonsense' } } },
    ]) {
      expect(refused(odd)).toEqual(new Map());
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
  ])('is refused for its %s', (path, evaluator) => {
    expect([...refused(evaluator).keys()]).toEqual([path]);
  });
});

test('an update names the evaluators, and what is wrong with which', () => {
  expect(validate(evaluatorsInput, {})).toEqual({ issues: [{ path: 'evaluators', message: 'is required' }] });
  expect(validate(evaluatorsInput, { evaluators: [LEAST, { ...LEAST, processor: undefined }] })).toEqual({
    issues: [{ path: 'evaluators.1.processor', message: 'is required' }],
  });
  expect(validate(evaluatorsInput, { evaluators: Array.from({ length: 1_001 }, () => 5) })).toEqual({
    issues: [{ path: 'evaluators', message: 'must have at most 1000 elements' }],
  });
  expect(evaluatorsInput.parse({ evaluators: [] })).toEqual({ evaluators: [] });
});

test.each([evaluatorsInput, activationInput])(
  'the revision that is expected is a whole number, by its value',
  (schema) => {
    const read = (expected_revision: unknown) => schema.safeParse({ evaluators: [], expected_revision }).data;
    expect(read(JSON.rawJSON('7.0'))?.expected_revision).toBe(7);
    expect(read(0)?.expected_revision).toBe(0);
    for (const wrong of [-1, 1.5, '7', null, true]) expect(read(wrong), String(wrong)).toBeUndefined();
  },
);

test('a conversation id has 1 to 256 characters, however many code units those take', () => {
  const accepts = (conversation_id: unknown) => bindingInput.safeParse({ conversation_id }).success;
  expect([accepts('c'), accepts('😀'.repeat(256))]).toEqual([true, true]);
  expect([accepts(''), accepts('😀'.repeat(257)), accepts(5), accepts(undefined)]).toEqual([
    false,
    false,
    false,
    false,
  ]);
});
