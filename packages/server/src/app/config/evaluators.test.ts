import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ConfigError } from '../../http/address.ts';
import { loadServiceFile, type ServiceFile } from './bootstrap-file.ts';

const SECRET = 'sk-S3CRET';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-config-evaluators-'));
});
afterEach(async () => {
  await rm(folder, { recursive: true });
});

async function read(yaml: string): Promise<ServiceFile> {
  await writeFile(join(folder, 'b.yaml'), yaml);
  return loadServiceFile('b.yaml', folder);
}

async function complaint(yaml: string): Promise<string> {
  const error = await read(yaml).then(String, (reason: unknown) => reason);
  if (!(error instanceof ConfigError)) throw new Error(`no ConfigError but ${String(error)}`);
  return error.message;
}

const MEMBERS =
  'name: a, trigger: {method: m}, llm: {operation: filter, prompt: p, connection: c}, processor: {path: a.wasm}';

describe('evaluators', () => {
  it('name members that nobody knows: a policy may not be what it was meant to be', async () => {
    const misspelt = MEMBERS.replace('{method: m}', '{method: m, namespce: finance}').replace(
      '{path:',
      '{sha: 1, path:',
    );
    const { evaluators, warnings } = await read(`evaluators:\n  - {on_eror: block, ${misspelt}}`);
    expect(evaluators).toMatchObject([{ name: 'a', on_error: 'continue', trigger: { namespace: null } }]);
    expect(warnings).toEqual([
      expect.stringMatching(/b\.yaml:2:\d+: unknown member "on_eror" is ignored; known members: name, .*, on_error/),
      expect.stringMatching(
        /b\.yaml:2:\d+: unknown member "trigger.namespce" is ignored; known members: method, namesp/,
      ),
      expect.stringMatching(/b\.yaml:2:\d+: unknown member "processor.sha" is ignored; known members: path/),
    ]);
    expect((await read(`evaluators: [{${MEMBERS}}]`)).warnings).toEqual([]);
  });
});

describe('llm_connections', () => {
  it('are taken with what they are made of', async () => {
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
    expect(warnings).toEqual([]);
  });

  it('have no line break at the end of a key that a template put there', async () => {
    const { llmConnections } = await read(
      `llm_connections:\n  - name: a\n    model: m\n    url: http://h\n    api_key: |\n      ${SECRET}\n`,
    );
    expect(llmConnections).toMatchObject([{ apiKey: SECRET }]);
  });

  it('may be none', async () => {
    for (const yaml of ['', 'llm_connections:', 'llm_connections: []']) {
      expect((await read(yaml)).llmConnections).toEqual([]);
    }
  });

  it('name a member that nobody knows, without its value', async () => {
    const { llmConnections, warnings } = await read(
      `llm_connections: [{name: a, model: m, url: "http://h", apikey: ${SECRET}}]`,
    );
    expect(llmConnections).toEqual([{ name: 'a', model: 'm', url: 'http://h' }]);
    expect(warnings).toEqual([
      expect.stringMatching(/b\.yaml:1:\d+: unknown member "apikey" is ignored; known members/),
    ]);
    expect(warnings.join()).not.toContain(SECRET);
  });

  it('are warned of with what is most likely meant otherwise, the key unsaid', async () => {
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
        /b\.yaml:3:25: llm_connections\[0\]: url ends in \/chat\/completions, which is appended to it: write what /,
      ),
      expect.stringMatching(
        /b\.yaml:3:63: llm_connections\[0\]: api_key begins with \$ and is sent as it stands here: /,
      ),
    ]);
    expect(warnings.join()).not.toContain('S3CRET');
  });

  const made = (members: string) => `llm_connections:\n  - {api_key: ${SECRET}, ${members}}`;

  it.each([
    [made('model: m, url: "http://h"'), '2:5: llm_connections[0]: name is missing'],
    [made('name: a, url: "http://h"'), '2:5: llm_connections[0]: model is missing'],
    [made('name: a, model: m'), '2:5: llm_connections[0]: url is missing'],
    [made('name: " ", model: m, url: "http://h"'), '2:26: llm_connections[0]: name must not be empty'],
    [made('name: "a\\tb", model: m, url: "http://h"'), '2:26: llm_connections[0]: name must not contain control'],
    [made('name: a, model: "", url: "http://h"'), '2:35: llm_connections[0]: model must not be empty'],
    [made('name: a, model: 7, url: "http://h"'), '2:35: llm_connections[0]: model is not a string; quote it'],
    [made('name: a, model: m, url: h'), '2:45: llm_connections[0]: url is not an http or https URL; accepted: an http'],
    [made(`name: a, model: m, url: "ftp://${SECRET}"`), '2:45: llm_connections[0]: url is not an http or https URL'],
    [made(`name: a, model: m, url: "http://u:${SECRET}@h"`), '2:45: llm_connections[0]: url carries credentials'],
    [made(`name: a, model: m, url: "http://h?k=${SECRET}"`), '2:45: llm_connections[0]: url has a query or fragment'],
    [
      'llm_connections:\n  - {name: a, model: m, url: "http://h", api_key: 7}',
      '2:42: llm_connections[0]: api_key is not',
    ],
    [
      `llm_connections:\n  - {name: a, model: m, url: "http://h", api_key: "${SECRET} x"}`,
      '2:42: llm_connections[0]: api_key must be printable ASCII without blanks',
    ],
    [`llm_connections:\n  - ${SECRET}`, '2:5: llm_connections[0]: is not a map with name, model and url'],
    [`llm_connections: {api_key: ${SECRET}}`, '1:1: llm_connections: is not a list'],
  ])('end the start with one line for %s', async (yaml, problem) => {
    const line = await complaint(yaml);
    expect(line).toContain(`b.yaml:${problem}`);
    expect(line).toMatch(/^--service-config \//);
    expect(line).not.toMatch(/\n|S3CRET/);
  });

  it('end the start when two have one name', async () => {
    const yaml =
      'llm_connections:\n  - {name: a, model: m, url: "http://h"}\n  - {name: " a", model: n, url: "http://i"}';
    expect(await complaint(yaml)).toContain(
      'b.yaml:3:6: llm_connections[1]: the name "a" is taken by an earlier entry',
    );
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
    'are a list or what a request would carry: %s',
    async (yaml) => {
      const { evaluators, warnings } = await read(yaml);
      expect(evaluators).toEqual([AS_EMITTED]);
      expect(warnings).toEqual([]);
    },
  );

  it('that are none are not the same as no such key', async () => {
    for (const yaml of ['evaluators: []', 'evaluators: {evaluators: []}', 'evaluators: {evaluators: }']) {
      expect((await read(yaml)).evaluators, yaml).toEqual([]);
    }
    for (const yaml of ['', 'evaluators:', 'namespaces: []']) {
      expect((await read(yaml)).evaluators, yaml).toBeUndefined();
    }
  });

  it('have paths that start at the folder of the file, and without one at the working directory', async () => {
    expect((await read('')).folder).toBe(folder);
    const elsewhere = await loadServiceFile(join(folder, 'b.yaml'), tmpdir());
    expect(elsewhere.folder).toBe(folder);
    await rm(join(folder, 'b.yaml'));
    expect((await loadServiceFile(undefined, folder)).folder).toBe(folder);
  });

  it.each([
    [EVALUATOR.replace('name: e, ', ''), '2:5', 'name is required'],
    ['5', '2:5', 'is not a map with name, trigger, llm and processor'],
    [EVALUATOR.replace('classify', 'guess'), '2:52', 'llm.operation '],
    [EVALUATOR.replace('prompt: p', 'prompt: 7'), '2:73', 'llm.prompt '],
    [EVALUATOR.replace('prompt: p', `prompt: p, api_key: ${SECRET}`), '2:84', 'llm.api_key is not a known field'],
    [EVALUATOR.replace('name: e,', 'name: e, on_error: stop,'), '2:15', 'on_error '],
    ['&a {name: e, trigger: *a}', '2:8', 'is not a map with'],
  ])('leave %s out with a warning and take the others', async (broken, place, problem) => {
    const { evaluators, warnings } = await read(`evaluators:\n  - ${broken}\n  - ${EVALUATOR}\n`);
    expect(evaluators).toEqual([AS_EMITTED]);
    expect(warnings).toEqual([expect.stringContaining(`b.yaml:${place}: evaluators[0] is left out: ${problem}`)]);
    expect(warnings.join()).not.toContain(SECRET);
  });

  it('that are left out are told of with all their problems, and with their names as far as they have any', async () => {
    const misspelt = EVALUATOR.replace('name: e', "name: ' e '").replace('connection', 'conection');
    const { evaluators, unreadableEvaluators, warnings } = await read(
      `evaluators:\n  - ${misspelt.replace('}}', '}, on_eror: block}')}\n  - {name: }\n  - {name: f}\n  - 5\n`,
    );
    expect([evaluators, unreadableEvaluators]).toEqual([[], ['e', 'f']]);
    expect(warnings.filter((warning) => /evaluators\[0\]|unknown/.test(warning))).toEqual([
      expect.stringMatching(/b\.yaml:2:\d+: unknown member "on_eror" is ignored; known members: /),
      expect.stringMatching(/b\.yaml:2:\d+: evaluators\[0\] is left out: llm\.connection is required$/),
      expect.stringMatching(
        /b\.yaml:2:\d+: evaluators\[0\] is left out: llm\.conection is not a known field; known fields: /,
      ),
    ]);
    expect(warnings.filter((warning) => warning.includes('evaluators[2]'))).toHaveLength(3);
  });

  it('in the long form are found where they stand', async () => {
    const { warnings } = await read(`evaluators:\n  more: 1\n  evaluators:\n    - 5\n`);
    expect(warnings).toEqual([
      expect.stringContaining('b.yaml:2:3: unknown member "more" is ignored; known members: evaluators'),
      expect.stringContaining('b.yaml:4:7: evaluators[0] is left out: '),
    ]);
  });

  it.each(['evaluators: 5', 'evaluators: {evaluator: []}', 'evaluators: {evaluators: 5}'])(
    'that are no list end the start: %s',
    async (yaml) => {
      expect(await complaint(yaml)).toMatch(/b\.yaml:1:\d+: evaluators: is not a list of evaluators$/);
    },
  );
});
