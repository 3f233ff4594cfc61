import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { scriptedTerminal } from '../packages/cli/src/testing/scripted-terminal.ts';
import { type CommandLine, cells, startCommandLine, TOOL } from './fixtures/command-line.ts';

// `sluice tools` against a real service, in both forms of output.

let commandLine: CommandLine;
beforeAll(async () => {
  commandLine = await startCommandLine();
});
afterEach(() => commandLine.clean());
afterAll(() => commandLine.close());

const sluice: CommandLine['sluice'] = (...args) => commandLine.sluice(...args);
const text: CommandLine['text'] = (...argv) => commandLine.text(...argv);
const json: CommandLine['json'] = (...argv) => commandLine.json(...argv);
const file: CommandLine['file'] = (...args) => commandLine.file(...args);

describe('tools', () => {
  it('are added with parameters, changed, moved, labeled and removed', async () => {
    const add = ['tools', 'add', '-n', 'sum', '-d', 'Adds', '-u', 'http://127.0.0.1:9/mcp', '--type', 'mcp-forward'];
    expect(await text(...add, '-p', 'a:number,First', '-p', 'b:number', '-r', 'a', '-l', 'team=x')).toBe(
      'added tool sum in default\n',
    );
    expect(await json('tools', 'show', 'sum')).toMatchObject({
      input_schema: {
        type: 'object',
        properties: { a: { type: 'number', description: 'First' }, b: { type: 'number' } },
        required: ['a'],
      },
      labels: { team: 'x' },
    });
    expect(await text('tools', 'edit', 'sum', '-n', 'add', '-d', 'Sums', '-u', 'x:y', '--move-to', 'maths')).toBe(
      'changed tool add in maths (new namespace)\n',
    );
    expect(await text('tools', 'label', 'add', 'add', 'x=1', 'y=2')).toBe('tool add in maths: team=x,x=1,y=2\n');
    expect(await text('tools', 'label', 'remove', 'add', 'team', 'y', '-N', 'maths')).toBe('tool add in maths: x=1\n');
    expect((await sluice(['tools', 'label', 'remove', 'add', 'team'])).err).toBe(
      'sluice: tool add has no label "team"\n',
    );
    expect(await json('tools', 'show', 'add')).toMatchObject({ description: 'Sums', uri: 'x:y', namespace: 'maths' });
    expect(cells(await text('tools', 'list', '-N', 'maths'))[1]).toEqual(['add', 'maths', 'mcp-forward', '-', 'Sums']);
    expect(await text('tools', 'remove', 'add')).toBe('removed tool add from maths\n');
    expect(await sluice(['tools', 'show', 'add'])).toMatchObject({
      code: 1,
      err: 'sluice: tool not found: add (404 NOT_FOUND)\n',
    });
  });

  it('are listed in part, and searched', async () => {
    for (const name of ['send_mail', 'read_mail', 'weather']) {
      await text('tools', 'add', '-n', name, '-d', `Tool ${name}`, '-u', 'x:y', '--type', 'custom', '-N', 'pages');
    }
    expect(await text('tools', 'ls', '-N', 'pages', '--search', 'MAIL', '-o', 'name')).toBe('send_mail\nread_mail\n');
    const listed = await sluice(['tools', 'ls', '-N', 'pages', '--limit', '2', '-o', 'name']);
    expect(listed).toMatchObject({
      code: 0,
      out: 'send_mail\nread_mail\n',
      err: '2 of 3 tools; raise --limit for more\n',
    });
    expect((await sluice(['tools', 'ls', '-N', 'pages', '--limit', '3'])).err).toBe('');
    expect((await sluice(['tools', 'ls', '--search', 'nothing'])).err).toBe('no tools match "nothing"\n');
    expect((await sluice(['forwards', 'ls', '--search', 'nothing', '--limit', '9'])).err).toBe(
      'no forwards match "nothing"\n',
    );
    expect(await sluice(['tools', 'ls', '--limit', '0'])).toMatchObject({ code: 1 });
  });

  it('are imported with unknown members and a warning, and edited without', async () => {
    const tool = { ...TOOL, name: 'imported', titel: 'x' };
    const warning = 'warning: imported in default: titel is not a known field and is stored; did you mean "title"?\n';
    const source = await file('tools.json', JSON.stringify([tool]));
    expect(await sluice(['tools', 'import', source])).toMatchObject({ code: 0, err: warning });
    const changed = await file('changed.json', JSON.stringify([{ ...tool, titles: 'y' }]));
    expect((await sluice(['tools', 'import', changed, '--update'])).err).toContain(
      'titles is not a known field and is stored',
    );
    const edited = await file('edited.json', JSON.stringify({ ...tool, descriptoin: 'z' }));
    expect(await sluice(['tools', 'edit', 'imported', '--file', edited])).toMatchObject({
      code: 1,
      err: expect.stringContaining('invalid tool: descriptoin is not a known field; did you mean "description"?'),
    });
  });

  it('are disabled and enabled, also by upstream names before they are discovered', async () => {
    await text('tools', 'add', '-n', 'sum', '-d', '', '-u', 'x:y', '--type', 'custom');
    expect(await text('tools', 'disable', 'sum')).toBe('disabled 1 tool\n');
    expect(cells(await text('tools', 'list', '-N', 'default')).map((row) => row.includes('no'))).toContain(true);
    expect(await json('tools', 'show', 'sum')).toMatchObject({ enabled: false });
    expect(await text('tools', 'enable', 'sum', '-N', 'default')).toBe('enabled 1 tool\n');
    expect(await json('tools', 'show', 'sum')).toMatchObject({ enabled: true });
    expect(await sluice(['tools', 'disable'])).toMatchObject({ code: 1, err: 'sluice: missing name of the tool\n' });
    await text('forwards', 'add', '--name', 'later', '--url', 'http://127.0.0.1:9/mcp');
    expect(await text('tools', 'disable', 'drop', '--forward', 'later')).toBe(
      'disabled 1 tool (1 not discovered yet)\n',
    );
    await text('forwards', 'remove', 'later');
    await text('tools', 'remove', 'sum');
  });

  it('show the URIs of their provisioned configuration, and keep them', async () => {
    const options = ['-n', 'forecast', '-d', '', '-u', 'weather://forecast', '--type', 'weather'];
    await text('tools', 'add', ...options, '--configuration-uri', 'config://1', '--secrets-uri', 'vault://1');
    const uris = { configurationURI: 'config://1', secretsURI: 'vault://1' };
    expect(await json('tools', 'show', 'forecast')).toMatchObject(uris);
    await text('tools', 'edit', 'forecast', '--secrets-uri', 'vault://2');
    expect(await json('tools', 'show', 'forecast')).toMatchObject({ ...uris, secretsURI: 'vault://2' });
    await text('tools', 'edit', 'forecast', '-d', 'Weather', '--configuration-uri', 'config://2');
    expect(await json('tools', 'show', 'forecast')).toMatchObject({
      description: 'Weather',
      configurationURI: 'config://2',
      secretsURI: 'vault://2',
    });
  });

  it('keep the exact text of numbers when they are added, shown, labeled and edited', async () => {
    const schema = '{"type":"object","properties":{"id":{"maximum":9223372036854775807,"minimum":1.0}}}';
    await text('tools', 'add', '-n', 'big', '-d', '', '-u', 'x:y', '--type', 't', '--input-schema', schema);
    await text('tools', 'label', 'add', 'big', 'a=b');
    await text('tools', 'edit', 'big', '-d', 'changed', '-p', 'more');
    const output = await text('tools', 'show', 'big', '--output', 'json');
    expect(output).toContain('"maximum": 9223372036854775807');
    expect(output).toContain('"minimum": 1.0');
    expect(await text('tools', 'show', 'big')).toMatch(/maximum: 9223372036854775807\n/);
    await text('tools', 'remove', 'big');
  });

  it('are replaced by a file or by standard input', async () => {
    await commandLine.service.register('tools', TOOL);
    const replaced = await file(
      'tool.yaml',
      'description: of YAML\nuri: x:y\ntoolType: t\ninput_schema: {type: object}\n',
    );
    expect(await text('tools', 'edit', 'weather', '--file', replaced)).toBe('changed tool weather in default\n');
    expect(await json('tools', 'show', 'weather')).toMatchObject({ description: 'of YAML', uri: 'x:y' });
    const { code } = await sluice(['tools', 'edit', 'weather', '-f', '-'], { input: JSON.stringify(TOOL) });
    expect(code).toBe(0);
    const wrong = await sluice(['tools', 'edit', 'weather', '-f', '-'], { input: '{"description":1}' });
    expect(wrong.err).toMatch(/^sluice: invalid tool\n {2}description: must be a string\n/);
    await text('tools', 'remove', 'weather');
  });

  it('are edited in an editor, whose output is kept when it is invalid', async () => {
    await commandLine.service.register('tools', TOOL);
    const edit = (editor: string) =>
      sluice(['tools', 'edit', 'weather'], { answers: [], env: { EDITOR: editor, PATH: process.env.PATH ?? '' } });
    expect(await edit('true')).toMatchObject({ code: 0, out: 'tool weather unchanged\n' });
    expect(await edit('sed -i.bak s/Weather/Forecast/')).toMatchObject({
      code: 0,
      out: 'changed tool weather in default\n',
    });
    expect(await json('tools', 'show', 'weather')).toMatchObject({ description: 'Forecast' });
    expect((await edit('false')).err).toBe('sluice: false exited with code 1; nothing was changed\n');
    const { code, err } = await edit('sed -i.bak s/{/[/');
    expect(code).toBe(1);
    const stored = /your changes are saved; to retry: sluice tools edit weather --file (\S+)\n$/.exec(err)?.[1] ?? '';
    expect(await readFile(stored, 'utf8')).toContain('Forecast');
    await rm(join(stored, '..'), { recursive: true });
    await text('tools', 'remove', 'weather');
  });

  it('are selected by namespace, and an ambiguous name lists the candidates', async () => {
    for (const namespace of ['one', 'two']) await commandLine.service.register('tools', { ...TOOL, namespace });
    expect((await sluice(['tools', 'show', 'weather'])).err).toMatch(/\(409 CONFLICT\)\n {2}namespaces: one, two\n$/);
    expect(await json('tools', 'show', 'weather', '-N', 'two')).toMatchObject({ namespace: 'two' });
    for (const namespace of ['one', 'two']) await text('tools', 'remove', 'weather', '--namespace', namespace);
  });

  it('in a namespace that does not exist are an error; a new namespace is reported', async () => {
    await commandLine.service.register('tools', TOOL);
    const notFound = { code: 1, out: '', err: 'sluice: namespace "finanec" does not exist\n' };
    for (const command of ['list', 'show weather', 'edit weather -d x', 'label add weather a=b', 'remove weather']) {
      expect(await sluice(['tools', ...command.split(' '), '-N', 'finanec'])).toEqual(notFound);
    }
    expect(await sluice(['forwards', 'list', '-N', 'finanec', '--output', 'json'])).toEqual(notFound);
    expect((await sluice(['tools', 'show', 'wether', '-N', 'default'])).err).toMatch(/^sluice: tool not found/);
    const add = ['tools', 'add', '-d', '', '-u', 'x:y', '--type', 't', '-N', 'finance', '-n'];
    expect(await text(...add, 'a')).toBe('added tool a in finance (new namespace)\n');
    expect(await text(...add, 'b')).toBe('added tool b in finance\n');
    await text('tools', 'remove', 'a');
    expect(await text('tools', 'delete', 'b')).toBe('removed tool b from finance\n');
    expect(await sluice(['tools', 'list', '-N', 'finance'])).toEqual({ code: 0, out: '', err: 'no tools\n' });
  });

  it('of an upstream cannot manipulate the terminal', async () => {
    await commandLine.service.register('tools', { ...TOOL, description: 'a\u001b[2Jb\u009b31m\u202e\nc' });
    for (const output of ['table', 'json']) {
      for (const command of ['list', 'show weather']) {
        const shown = await text('tools', ...command.split(' '), '--output', output);
        // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must not be there
        expect(shown).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
      }
    }
    await text('tools', 'remove', 'weather');
  });
});

describe('an import', () => {
  const toolFile = (count: number, name: string) =>
    Array.from({ length: count }, (_, at) => ({ ...TOOL, name: `${name}-${at}`, namespace: 'many' }));

  it('registers a large file, counts existing tools, and replaces them with --update', async () => {
    const tools = await file('many.json', { tools: toolFile(400, 'many') });
    const first = await sluice(['tools', 'import', tools]);
    expect(first).toMatchObject({ code: 0, out: 'created 400, updated 0, existing 0, failed 0\n' });
    const more = await file('more.json', [...toolFile(401, 'many').map((tool) => ({ ...tool, description: 'new' }))]);
    const secondImport = await sluice(['tools', 'import', more]);
    expect(secondImport).toMatchObject({ code: 0, out: 'created 1, updated 0, existing 400, failed 0\n' });
    expect(secondImport.err).toContain('use --update to replace them');
    const { code, out } = await sluice(['tools', 'import', more, '--update', '--output', 'json']);
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ created: 0, updated: 401, failed: 0, failures: [] });
    expect(await json('tools', 'show', 'many-7')).toMatchObject({ description: 'new' });
  });

  it('accepts the output of a list, and YAML, from standard input', async () => {
    await commandLine.service.register('tools', { ...TOOL, namespace: 'here' });
    const { out } = await sluice(['tools', 'list', '-N', 'here', '--output', 'json']);
    await text('tools', 'remove', 'weather', '-N', 'here');
    const imported = await sluice(['tools', 'import', '-'], { input: out });
    expect(imported).toMatchObject({ code: 0, out: 'created 1, updated 0, existing 0, failed 0\n' });
    expect(await json('tools', 'show', 'weather', '-N', 'here')).toEqual(JSON.parse(out)[0]);
    const yaml =
      'tools:\n  - {name: y, description: "", uri: "x:y", toolType: t, input_schema: {maximum: 9223372036854775807}}\n';
    expect(await sluice(['tools', 'import', '-'], { input: yaml })).toMatchObject({ code: 0 });
    expect(await text('tools', 'show', 'y', '--output', 'json')).toContain('9223372036854775807');
  });

  it('sends nothing when any tool is invalid', async () => {
    const tools = await file('wrong.json', [
      { ...TOOL, name: 'right' },
      { ...TOOL, name: 'wrong', labels: { a: 1 } },
    ]);
    expect(await sluice(['tools', 'import', tools])).toEqual({
      code: 1,
      out: '',
      err: 'sluice: wrong.json: invalid, nothing was sent\n  tool 2 (wrong): labels.a: must be a string\n',
    });
    expect(await sluice(['tools', 'show', 'right'])).toMatchObject({ code: 1 });
  });

  it('continues when the service rejects a tool, reports it, and fails at the end', async () => {
    const huge = { ...TOOL, name: 'huge', description: 'x'.repeat(1024 * 1024) };
    const tools = await file('huge.json', [huge, { ...TOOL, name: 'after' }]);
    const { code, out, err } = await sluice(['tools', 'import', tools]);
    expect({ code, out }).toEqual({ code: 1, out: 'created 1, updated 0, existing 0, failed 1\n' });
    const rejected =
      '  huge in default: request body too large: the limit is 1048576 bytes, which is fixed (413 PAYLOAD_TOO_LARGE)\n';
    // An import that takes more than a second reports its progress.
    expect(err.replace(/^\d of 2 tools: .*\n/gm, '')).toBe(rejected);
  });

  it('that is interrupted reports completed and remaining tools', async () => {
    const tools = JSON.stringify(toolFile(2000, 'interrupted'));
    const terminal = scriptedTerminal({ input: tools, answers: [], columns: 100 });
    const seen = terminal.stderr.write;
    const interrupting = {
      ...terminal,
      stderr: {
        ...terminal.stderr,
        write: (text: string) => {
          seen(text);
          terminal.interrupt();
        },
      },
    };
    const code = await commandLine.runOn(interrupting, 'tools', 'import', '-');
    expect(code).toBe(130);
    expect(terminal.err().split('\u001b[K')[1]).toMatch(/^\d+ of 2000 tools: created \d+, /);
    const [, created, unfinished] =
      /^created (\d+), updated 0, existing 0, failed 0, unfinished (\d+)\n$/.exec(terminal.out()) ?? [];
    expect(Number(created)).toBeGreaterThan(0);
    expect(Number(unfinished)).toBeGreaterThan(0);
    expect(Number(created) + Number(unfinished)).toBe(2000);
  });

  it('stops when the service is unreachable', async () => {
    const tools = await file('few.json', toolFile(500, 'few'));
    const { code, out, err } = await sluice(['tools', 'import', tools, '--host', 'http://no-such-host.invalid']);
    expect(code).toBe(1);
    expect(out).toBe('created 0, updated 0, existing 0, failed 0, unfinished 500\n');
    expect(err).toMatch(/sluice: unknown host: no-such-host\.invalid\n$/);
  });
});
