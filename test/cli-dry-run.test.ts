import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { type CommandLine, startCommandLine, TOOL } from './fixtures/command-line.ts';

// Commands with --dry-run against a real service, whose state must stay the same.

let commandLine: CommandLine;
beforeAll(async () => {
  commandLine = await startCommandLine();
  await commandLine.service.register('tools', { ...TOOL, labels: { a: 'b' } });
  await commandLine.service.register('forwards', { name: 'crm', address: 'http://127.0.0.1:9/mcp' });
  await commandLine.service.register('namespaces', { name: 'finance' });
  await commandLine.text('prompts', 'add', '-n', 'greet', '-m', 'user:Hello.');
  await commandLine.text('resources', 'add', '--name', 'book', '--location', 'docs://book', '--type', 'docs');
  await commandLine.text('services', 'add', '-n', 'py', '--address', '127.0.0.1:9', '--type', 'tool-invoker');
  // Its health changes once, by itself.
  const health = async () => (await commandLine.service.manage('GET', '/services/py')).data;
  await vi.waitFor(async () => expect(await health()).not.toMatchObject({ health: 'pending' }), { timeout: 20_000 });
  await commandLine.file('evaluators.json', '[]');
  await commandLine.file('secrets.txt', 's3cret');
  await commandLine.file('tool.json', { ...TOOL, description: 'Other' });
});
afterAll(() => commandLine.close());

/** Everything that the commands could change. The status of a forward changes by itself. */
async function state(): Promise<unknown> {
  const read = async (path: string) => (await commandLine.service.manage('GET', `/${path}`)).data;
  const forwards = await commandLine.text('forwards', 'list', '-o', 'name');
  const paths = ['tools', 'resources', 'prompts', 'namespaces', 'services', 'evaluators/revisions'];
  return [forwards, await read('evaluators/namespaces'), ...(await Promise.all(paths.map(read)))];
}

it.each([
  ['forwards add ledger http://127.0.0.1:9/mcp', 'POST /api/v1/forwards'],
  ['forwards refresh crm', 'POST /api/v1/forwards/crm/refreshes'],
  ['forwards rm crm', 'DELETE /api/v1/forwards/crm'],
  ['namespaces create hr', 'POST /api/v1/namespaces'],
  ['namespaces delete finance --cascade', 'DELETE /api/v1/namespaces/finance?cascade=true'],
  ['namespaces label add finance a=b', 'PUT /api/v1/namespaces/finance'],
  ['tools add -n sum -d Adds -u x:y --type t', 'POST /api/v1/tools'],
  ['tools edit weather -d Other', 'PUT /api/v1/tools/weather'],
  ['tools edit weather -f tool.json', 'PUT /api/v1/tools/weather'],
  ['tools label remove weather a', 'PUT /api/v1/tools/weather'],
  ['tools remove weather', 'DELETE /api/v1/tools/weather?namespace=default'],
  ['resources remove book', 'DELETE /api/v1/resources/book?namespace=default'],
  ['prompts edit greet -d Greets', 'PUT /api/v1/prompts/greet'],
  ['services add -n js --address 127.0.0.1:9 --type tool-invoker', 'POST /api/v1/services'],
  ['services remove py', 'DELETE /api/v1/services/py'],
  ['services provision py -n a --secrets secrets.txt', 'POST /api/v1/services/py/provisions'],
  ['evaluators apply -f evaluators.json', 'PUT /api/v1/evaluators?strict=true'],
  ['evaluators bind finance c-1', 'PUT /api/v1/evaluators/namespaces/finance'],
  ['evaluators unbind finance', 'DELETE /api/v1/evaluators/namespaces/finance'],
  ['interactions clear', 'DELETE /api/v1/interactions'],
])('%s prints its request and sends nothing', async (command, request) => {
  const before = await state();
  const { code, out, err } = await commandLine.sluice([...command.split(' '), '--dry-run', '-o', 'json']);
  expect({ code, err }).toEqual({ code: 0, err: '' });
  expect(JSON.parse(out)).toMatchObject({ dryRun: true, request });
  expect(out).not.toContain('s3cret');
  expect(await state()).toEqual(before);
});

it('prints the body of the request', async () => {
  expect(await commandLine.text('namespaces', 'create', 'hr', '-l', 'team=h', '--dry-run')).toBe(
    'dryRun:  true\nrequest: POST /api/v1/namespaces\nbody:\n  name: hr\n  labels:\n    team: h\n',
  );
  expect(await commandLine.text('tools', 'rm', 'weather', '--dry-run', '-o', 'name')).toBe(
    'not sent: DELETE /api/v1/tools/weather?namespace=default\n',
  );
  const provision = ['services', 'provision', 'py', '-n', 'a', '--secrets', 'secrets.txt', '--dry-run'];
  expect(await commandLine.json(...provision)).toMatchObject({ body: { name: 'a', secrets: '(6 characters)' } });
});

it('reports what does not exist or is invalid, as without --dry-run', async () => {
  const notFound = [
    ['forwards', 'remove', 'nope'],
    ['forwards', 'refresh', 'nope'],
    ['namespaces', 'delete', 'nope'],
    ['services', 'remove', 'nope'],
    ['tools', 'edit', 'nope', '-d', 'x'],
    ['evaluators', 'revisions', 'activate', '99'],
  ];
  for (const command of notFound) {
    expect(await commandLine.sluice([...command, '--dry-run'])).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringMatching(/\(404 NOT_FOUND\)\n/),
    });
  }
  expect((await commandLine.sluice(['namespaces', 'create', 'HR', '--dry-run'])).err).toMatch(/^sluice: invalid/);
});

it('counts the tools of an import', async () => {
  await commandLine.file('tools.json', [TOOL, { ...TOOL, name: 'new' }]);
  const before = await state();
  const imported = ['tools', 'import', 'tools.json', '--dry-run'];
  expect(await commandLine.text(...imported)).toBe('would create 1, update 0, skip 1 existing\n');
  expect(await commandLine.text(...imported, '--update')).toBe('would create 1, update 1, skip 0 existing\n');
  expect(await state()).toEqual(before);
});

it('an edit in the editor is shown and not kept', async () => {
  const { code, out, err } = await commandLine.sluice(['tools', 'edit', 'weather', '--dry-run'], {
    answers: [],
    env: { EDITOR: 'sed -i.bak s/Weather/Forecast/', PATH: process.env.PATH ?? '' },
  });
  expect({ code, err }).toEqual({ code: 0, err: '' });
  expect(out).toContain('description: Forecast');
});
