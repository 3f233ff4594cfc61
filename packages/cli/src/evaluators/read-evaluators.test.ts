import { parseLossless } from '@sluice/protocol/json/parse';
import { expect, it } from 'vitest';
import { parseDocument } from '../files/document.ts';
import { parseEvaluators } from './read-evaluators.ts';

const GATE = `
  name: gate
  trigger: { method: tools/call }
  llm: { operation: classify, prompt: Is it safe?, connection: local }
  processor: { path: gate.wasm }`;

const LIST = `- ${GATE.trim()}`;

const read = async (text: string) => parseEvaluators(await parseDocument(text, 'e.yaml'), 'e.yaml');

it('accepts a list and an object with one, whose other members are not sent', async () => {
  const evaluators = [
    {
      name: 'gate',
      trigger: { method: 'tools/call', namespace: null },
      llm: { operation: 'classify', prompt: 'Is it safe?', connection: 'local', result_schema: null },
      processor: { path: 'gate.wasm' },
      on_error: 'continue',
    },
  ];
  expect(await read(LIST)).toEqual({ evaluators });
  const service = `llm_connections: [{ name: local, model: m, url: http://m, api_key: s3cret }]\nevaluators:\n${LIST}`;
  expect(await read(service)).toEqual({ evaluators });
  expect(await read(`expected_revision: 7\nevaluators:\n${LIST}`)).toEqual({ evaluators, expected_revision: 7 });
  expect(await read('[]')).toEqual({ evaluators: [] });
});

it('keeps the exact text of numbers in a schema', async () => {
  const schema = '{"maximum":9223372036854775807,"minimum":1.0}';
  const llm = `{"operation":"filter","prompt":"","connection":"c","result_schema":${schema}}`;
  const text = `[{"name":"a","trigger":{"method":"m"},"llm":${llm},"processor":{"path":"p"}}]`;
  const {
    evaluators: [evaluator],
  } = await parseEvaluators(parseLossless(text), 'e.json');
  expect(JSON.stringify(evaluator?.llm.result_schema)).toBe(schema);
});

it('reports the expected type', async () => {
  for (const text of ['name: gate', '5', '', 'null', 'evaluators: { gate: {} }', '"x"']) {
    await expect(read(text), text).rejects.toThrow(
      'e.yaml: expected a list of evaluators, or an object with "evaluators"',
    );
  }
});

it('lists all problems, and does not print a key at a wrong position', async () => {
  const wrong = LIST.replace('connection: local', 'model: m, api_key: s3cret').replace('gate.wasm', '5');
  const failure = await read(wrong).catch((error: unknown) => error);
  expect(failure).toMatchObject({ message: 'e.yaml: invalid, nothing was sent' });
  expect(failure).toMatchObject({
    notes: [
      'evaluators.0.llm.connection: is required',
      expect.stringMatching(/^evaluators\.0\.llm\.model: is not a known field; /),
      expect.stringMatching(/^evaluators\.0\.llm\.api_key: is not a known field; /),
      expect.stringMatching(/^evaluators\.0\.processor\.path: /),
    ],
  });
  expect(JSON.stringify(failure)).not.toContain('s3cret');
  await expect(read(LIST.replace('gate.wasm', '5'))).rejects.toMatchObject({
    message: 'e.yaml: invalid, nothing was sent',
    notes: [expect.stringMatching(/^evaluators\.0\.processor\.path: /)],
  });
  const many = await read(Array.from({ length: 30 }, () => '- {}').join('\n')).catch((error: unknown) => error);
  expect(many).toMatchObject({ notes: { length: 21, 20: 'and more' } });
});

it('rejects members that the service would ignore', async () => {
  const misspelt = `${LIST}\n  on_eror: block`
    .replace('{ method:', '{ namespce: finance, method:')
    .replace('path:', 'pth: 1, path:');
  await expect(read(misspelt)).rejects.toMatchObject({
    message: 'e.yaml: invalid, nothing was sent',
    notes: [
      'evaluators.0.on_eror: is not a known field; known fields: name, trigger, llm, processor, on_error',
      'evaluators.0.trigger.namespce: is not a known field; known fields: method, namespace',
      'evaluators.0.processor.pth: is not a known field; known fields: path',
    ],
  });
});
