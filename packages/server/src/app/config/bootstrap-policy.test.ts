import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ConfigError } from '../../http/settings.ts';
import { type BootstrapFile, loadBootstrapFile } from './bootstrap-file.ts';

const SECRET = 'sk-S3CRET';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-config-evaluators-'));
});
afterEach(async () => {
  await rm(folder, { recursive: true });
});

async function read(yaml: string): Promise<BootstrapFile> {
  await writeFile(join(folder, 'b.yaml'), yaml);
  return loadBootstrapFile('b.yaml', folder);
}

async function errorOf(yaml: string): Promise<string> {
  const error = await read(yaml).then(String, (reason: unknown) => reason);
  if (!(error instanceof ConfigError)) throw new Error(`no ConfigError but ${String(error)}`);
  return error.message;
}

const MEMBERS =
  'name: a, trigger: {method: m}, llm: {operation: filter, prompt: p, connection: c}, processor: {path: a.wasm}';

describe('evaluators', () => {
  it('are checked for unknown keys, because a misspelled key changes the policy', async () => {
    const misspelled = MEMBERS.replace('{method: m}', '{method: m, namespce: finance}').replace(
      '{path:',
      '{sha: 1, path:',
    );
    const { evaluators, warnings } = await read(`evaluators:\n  - {on_eror: block, ${misspelled}}`);
    expect(evaluators).toMatchObject([{ name: 'a', on_error: 'continue', trigger: { namespace: null } }]);
    expect(warnings).toEqual([
      expect.stringMatching(
        /b\.yaml:2:\d+: evaluators\[0\]\.on_eror is not a known field and is ignored; known fields: name, .*, on_error/,
      ),
      expect.stringMatching(
        /b\.yaml:2:\d+: evaluators\[0\]\.trigger\.namespce is not a known field and is ignored; known fields: method, namesp/,
      ),
      expect.stringMatching(
        /b\.yaml:2:\d+: evaluators\[0\]\.processor\.sha is not a known field and is ignored; known fields: path/,
      ),
    ]);
    expect((await read(`evaluators: [{${MEMBERS}}]`)).warnings).toEqual([]);
  });
});

describe('llm_connections', () => {
  it('are parsed with all fields', async () => {
    const { llmConnections, warnings } = await read(`
llm_connections:
  - name: ' guard '
    model: small
    url: https://models.example/v1/
    api_key: ${SECRET}
  - {name: local, model: "a:b", url: "http://127.0.0.1:11434", api_key: }
  - {name: bare, model: m, url: "http://h", api_key: ""}
`);
    expect(llmConnections).toEqual([
      { name: 'guard', model: 'small', url: 'https://models.example/v1', apiKey: SECRET },
      { name: 'local', model: 'a:b', url: 'http://127.0.0.1:11434' },
      { name: 'bare', model: 'm', url: 'http://h' },
    ]);
    expect(warnings).toEqual([
      expect.stringMatching(/b\.yaml:6:5: llm_connections\[0\]: api_key is written in the file: /),
    ]);
    expect(warnings.join()).not.toContain(SECRET);
  });

  it('may refer to secrets in their keys, without a warning', async () => {
    const key = `$\{env:OPENAI_API_KEY}`;
    const { llmConnections, warnings } = await read(
      `llm_connections: [{name: a, model: m, url: "http://h", api_key: "${key}"}]`,
    );
    expect(llmConnections).toMatchObject([{ apiKey: key }]);
    expect(warnings).toEqual([]);
  });

  it('have keys without a trailing line break', async () => {
    const { llmConnections } = await read(
      `llm_connections:\n  - name: a\n    model: m\n    url: http://h\n    api_key: |\n      ${SECRET}\n`,
    );
    expect(llmConnections).toMatchObject([{ apiKey: SECRET }]);
  });

  it('can be empty', async () => {
    for (const yaml of ['', 'llm_connections:', 'llm_connections: []']) {
      expect((await read(yaml)).llmConnections).toEqual([]);
    }
  });

  it('are checked for unknown keys, whose values are not reported', async () => {
    const { llmConnections, warnings } = await read(
      `llm_connections: [{name: a, model: m, url: "http://h", apikey: ${SECRET}}]`,
    );
    expect(llmConnections).toEqual([{ name: 'a', model: 'm', url: 'http://h' }]);
    expect(warnings).toEqual([
      expect.stringMatching(
        /b\.yaml:1:\d+: llm_connections\[0\]\.apikey is not a known field and is ignored; known fields/,
      ),
    ]);
    expect(warnings.join()).not.toContain(SECRET);
  });

  it('are checked for likely mistakes, without the key in the warning', async () => {
    const { llmConnections, warnings } = await read(`
llm_connections:
  - {name: a, model: m, url: "http://h/v1/chat/completions/", api_key: $${SECRET}}
  - {name: b, model: m, url: "http://h/v1/chat/completions.d", api_key: "a$b"}
`);
    expect(llmConnections).toMatchObject([
      { url: 'http://h/v1/chat/completions', apiKey: `$${SECRET}` },
      { url: 'http://h/v1/chat/completions.d', apiKey: 'a$b' },
    ]);
    expect(warnings).toEqual([
      expect.stringMatching(
        /b\.yaml:3:25: llm_connections\[0\]: url ends with \/chat\/completions, which is appended automatically; remove it/,
      ),
      expect.stringMatching(/b\.yaml:3:63: llm_connections\[0\]: api_key starts with \$ and is sent literally: /),
      expect.stringMatching(/b\.yaml:4:64: llm_connections\[1\]: api_key is written in the file: /),
    ]);
    expect(warnings.join()).not.toContain('S3CRET');
  });

  const connection = (members: string) => `llm_connections:\n  - {api_key: ${SECRET}, ${members}}`;

  it.each([
    [connection('model: m, url: "http://h"'), '2:5: llm_connections[0]: name is missing'],
    [connection('name: a, url: "http://h"'), '2:5: llm_connections[0]: model is missing'],
    [connection('name: a, model: m'), '2:5: llm_connections[0]: url is missing'],
    [connection('name: " ", model: m, url: "http://h"'), '2:26: llm_connections[0]: name must not be empty'],
    [connection('name: "a\\tb", model: m, url: "http://h"'), '2:26: llm_connections[0]: name must not contain control'],
    [connection('name: a, model: "", url: "http://h"'), '2:35: llm_connections[0]: model must not be empty'],
    [connection('name: a, model: 7, url: "http://h"'), '2:35: llm_connections[0]: model must be a string; quote it'],
    [
      connection('name: a, model: m, url: h'),
      '2:45: llm_connections[0]: url is not an http or https URL; expected an http',
    ],
    [
      connection(`name: a, model: m, url: "ftp://${SECRET}"`),
      '2:45: llm_connections[0]: url is not an http or https URL',
    ],
    [
      connection(`name: a, model: m, url: "http://u:${SECRET}@h"`),
      '2:45: llm_connections[0]: url contains credentials',
    ],
    [
      connection(`name: a, model: m, url: "http://h?k=${SECRET}"`),
      '2:45: llm_connections[0]: url contains a query or fragment',
    ],
    [
      'llm_connections:\n  - {name: a, model: m, url: "http://h", api_key: 7}',
      '2:42: llm_connections[0]: api_key must be a string; quote it',
    ],
    [
      `llm_connections:\n  - {name: a, model: m, url: "http://h", api_key: "${SECRET} x"}`,
      '2:42: llm_connections[0]: api_key must be printable ASCII without spaces',
    ],
    [`llm_connections:\n  - ${SECRET}`, '2:5: llm_connections[0]: must be a map with name, model and url'],
    [`llm_connections: {api_key: ${SECRET}}`, '1:1: llm_connections: must be a list'],
  ])('are rejected with a one-line error: %s', async (yaml, problem) => {
    const line = await errorOf(yaml);
    expect(line).toContain(`b.yaml:${problem}`);
    expect(line).toMatch(/^--service-config \//);
    expect(line).not.toMatch(/\n|S3CRET/);
  });

  it('are rejected if two have the same name', async () => {
    const yaml =
      'llm_connections:\n  - {name: a, model: m, url: "http://h"}\n  - {name: " a", model: n, url: "http://i"}';
    expect(await errorOf(yaml)).toContain('b.yaml:3:6: llm_connections[1]: duplicate name "a"');
  });
});

const EVALUATOR = `{name: e, trigger: {method: tools/call}, llm: {operation: classify, prompt: p, connection: c}, processor: {path: a.wasm}}`;
const AS_EMITTED = {
  name: 'e',
  trigger: { method: 'tools/call', namespace: null },
  llm: { operation: 'classify', prompt: 'p', connection: 'c', result_schema: null },
  processor: { path: 'a.wasm' },
  on_error: 'continue',
};

describe('evaluators', () => {
  it.each([`evaluators: [${EVALUATOR}]`, `evaluators: {evaluators: [${EVALUATOR}]}`])(
    'are a list or the body of a request: %s',
    async (yaml) => {
      const { evaluators, warnings } = await read(yaml);
      expect(evaluators).toEqual([AS_EMITTED]);
      expect(warnings).toEqual([]);
    },
  );

  it('can be empty, unlike a missing key', async () => {
    for (const yaml of ['evaluators: []', 'evaluators: {evaluators: []}', 'evaluators: {evaluators: }']) {
      expect((await read(yaml)).evaluators, yaml).toEqual([]);
    }
    for (const yaml of ['', 'evaluators:', 'namespaces: []']) {
      expect((await read(yaml)).evaluators, yaml).toBeUndefined();
    }
  });

  it('have paths relative to the folder of the file, or to the working directory without a file', async () => {
    expect((await read('')).folder).toBe(folder);
    const elsewhere = await loadBootstrapFile(join(folder, 'b.yaml'), tmpdir());
    expect(elsewhere.folder).toBe(folder);
    await rm(join(folder, 'b.yaml'));
    expect((await loadBootstrapFile(undefined, folder)).folder).toBe(folder);
  });

  it.each([
    [EVALUATOR.replace('name: e, ', ''), '2:5', 'name is required'],
    ['5', '2:5', 'must be a map with name, trigger, llm and processor'],
    [EVALUATOR.replace('classify', 'guess'), '2:52', 'llm.operation '],
    [EVALUATOR.replace('prompt: p', 'prompt: 7'), '2:73', 'llm.prompt '],
    [EVALUATOR.replace('prompt: p', `prompt: p, api_key: ${SECRET}`), '2:84', 'llm.api_key is not a known field'],
    [EVALUATOR.replace('name: e,', 'name: e, on_error: stop,'), '2:15', 'on_error '],
  ])('are skipped with a warning if invalid: %s', async (broken, place, problem) => {
    const { evaluators, warnings } = await read(`evaluators:\n  - ${broken}\n  - ${EVALUATOR}\n`);
    expect(evaluators).toEqual([AS_EMITTED]);
    expect(warnings).toEqual([expect.stringContaining(`b.yaml:${place}: evaluators[0] is skipped: ${problem}`)]);
    expect(warnings.join()).not.toContain(SECRET);
  });

  it('are skipped with a warning for each problem, and listed by name', async () => {
    const misspelled = EVALUATOR.replace('name: e', "name: ' e '").replace('connection', 'conection');
    const { evaluators, invalidEvaluators, warnings } = await read(
      `evaluators:\n  - ${misspelled.replace('}}', '}, on_eror: block}')}\n  - {name: }\n  - {name: f}\n  - 5\n`,
    );
    expect([evaluators, invalidEvaluators]).toEqual([[], ['e', 'f']]);
    expect(warnings.filter((warning) => /evaluators\[0\]|unknown/.test(warning))).toEqual([
      expect.stringMatching(
        /b\.yaml:2:\d+: evaluators\[0\]\.on_eror is not a known field and is ignored; known fields: /,
      ),
      expect.stringMatching(/b\.yaml:2:\d+: evaluators\[0\] is skipped: llm\.connection is required$/),
      expect.stringMatching(
        /b\.yaml:2:\d+: evaluators\[0\] is skipped: llm\.conection is not a known field; known fields: /,
      ),
    ]);
    expect(warnings.filter((warning) => warning.includes('evaluators[2]'))).toHaveLength(3);
  });

  it('have correct positions in the long form', async () => {
    const { warnings } = await read(`evaluators:\n  more: 1\n  evaluators:\n    - 5\n`);
    expect(warnings).toEqual([
      expect.stringContaining(
        'b.yaml:2:3: evaluators.more is not a known field and is ignored; known fields: evaluators',
      ),
      expect.stringContaining('b.yaml:4:7: evaluators[0] is skipped: '),
    ]);
  });

  it.each(['evaluators: 5', 'evaluators: {evaluator: []}', 'evaluators: {evaluators: 5}'])(
    'are rejected if they are not a list: %s',
    async (yaml) => {
      expect(await errorOf(yaml)).toMatch(/b\.yaml:1:\d+: evaluators: must be a list of evaluators$/);
    },
  );
});
