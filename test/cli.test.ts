import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:https';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { parseLocated } from '../packages/cli/src/files/located-document.ts';
import { localhostCertificate } from '../packages/server/src/http/client/certificate.fixture.ts';
import { type CommandLine, cells, startCommandLine, TOOL } from './fixtures/command-line.ts';
import { type DualEra, startDualEra } from './fixtures/dual-era.ts';
import { listen } from './fixtures/http-server.ts';

// Groups of commands against a real service with a real MCP server, in both output formats. Those for tools have a file
// of their own.

let commandLine: CommandLine;
let upstream: DualEra;
beforeAll(async () => {
  [commandLine, upstream] = await Promise.all([startCommandLine(), startDualEra()]);
});
afterEach(() => commandLine.clean());
afterAll(async () => {
  await commandLine.close();
  await upstream.close();
});

const sluice: CommandLine['sluice'] = (...args) => commandLine.sluice(...args);
const text: CommandLine['text'] = (...argv) => commandLine.text(...argv);
const json: CommandLine['json'] = (...argv) => commandLine.json(...argv);

describe('forwards', () => {
  it('are added, listed, shown, refreshed and removed', async () => {
    expect(await text('forwards', 'add', 'up', upstream.url, '-N', 'dual', '-l', 'a=b')).toMatch(
      /^added forward up to dual \(new namespace\): \d+ tools, \d+ resources, \d+ prompts\n$/,
    );
    const [head, row] = cells(await text('forwards', 'list'));
    expect(head?.slice(0, 4)).toEqual(['NAME', 'NAMESPACE', 'ADDRESS', 'AVAILABLE']);
    expect(row?.slice(0, 4)).toEqual(['up', 'dual', upstream.url, 'yes']);
    expect(await text('forwards', 'show', 'up')).toMatch(/^labels:\n {2}a: b\n/m);
    expect(await text('forwards', 'edit', 'up', '-l', 'c=d', '--remove-label', 'a', '--prefix', 'p_')).toMatch(
      /^changed forward up in dual: \d+ tools, /,
    );
    expect(await json('forwards', 'show', 'up')).toMatchObject({ labels: { c: 'd' }, prefix: 'p_' });
    expect((await sluice(['forwards', 'edit', 'up'])).err).toContain('nothing to change');
    await text('forwards', 'edit', 'up', '--prefix', '');
    expect(await json('forwards', 'refresh', '--name', 'up')).toMatchObject({ refreshed: 'up' });
    expect(await sluice(['forwards', 'show', 'up', '--name', 'up'])).toMatchObject({ code: 1 });
    expect(await json('tools', 'list', '-N', 'dual')).toContainEqual(
      expect.objectContaining({ name: 'test_simple_text' }),
    );
    expect(await text('forwards', 'remove', '--name', 'up')).toBe('removed forward up\n');
    for (const named of [
      ['--name', 'up', '--url', upstream.url],
      ['--name', 'up', upstream.url],
      ['up', '--url', upstream.url],
    ]) {
      expect(await text('forwards', 'add', ...named)).toMatch(/^added forward up to default: /);
      await text('forwards', 'remove', 'up');
    }
    expect(await sluice(['forwards', 'list'])).toEqual({ code: 0, out: '', err: 'no forwards\n' });
  });

  it('report which tools conflict with theirs, and that a removed tool will return', async () => {
    const add = ['forwards', 'add', '--url', upstream.url, '--name'];
    expect(await text(...add, 'first')).toMatch(/^added forward first to default: \d+ tools, \d+ resources/);
    expect(await text(...add, 'second')).toMatch(
      /^added forward second to default: \d+ tools, all shadowed by forward first \(use --prefix\), \d+ resources/,
    );
    const [head, , second] = cells(await text('forwards', 'list'));
    expect(second?.[head?.indexOf('STATUS') ?? -1]).toMatch(
      /^shadowed by entries registered earlier: tool \w.{20,40}…$/,
    );
    expect(await text('forwards', 'show', 'second')).toMatch(/statusMessage: .*test_simple_text/);
    const [columns, ...shadowed] = cells(await text('tools', 'list', '--only-shadowed'));
    const [forward, isShadowed] = ['FORWARD', 'SHADOWED'].map((title) => columns?.indexOf(title) ?? -1);
    expect(new Set(shadowed.map((row) => [row[forward ?? -1], row[isShadowed ?? -1]].join()))).toEqual(
      new Set(['second,yes']),
    );
    await text('forwards', 'remove', 'second');
    expect(await sluice(['tools', 'remove', 'test_simple_text'])).toEqual({
      code: 0,
      out: 'removed tool test_simple_text from default\n',
      err: 'the next discovery of forward first adds it again; to hide it, use "sluice tools disable"\n',
    });
    await commandLine.service.register('tools', { ...TOOL, name: 'test_error_handling', namespace: 'some' });
    expect(await text(...add, 'third', '-N', 'some')).toMatch(
      / tools \(1 shadowed by manually registered tools; use --prefix\), /,
    );
    for (const name of ['first', 'third']) await text('forwards', 'delete', name);
  });

  it('that are down are added, and refreshing them fails', async () => {
    const added = await text('forwards', 'add', '-n', 'down', '--url', 'http://127.0.0.1:9/mcp');
    expect(added).toMatch(/^added forward down to default: not available yet: .*refused/);
    const { code, err } = await sluice(['forwards', 'refresh', 'down']);
    expect(code).toBe(1);
    expect(err).toMatch(/^sluice: .*refused.* \(502 BAD_GATEWAY\)\n$/);
    const rows = cells(await text('forwards', 'history', 'down')).map((row) => row.slice(1));
    expect(rows[0]).toEqual(['CHANGE', 'MS', 'DETAIL']);
    expect(rows).toContainEqual(['unavailable', '-', expect.stringMatching(/refused/)]);
    expect(rows).toContainEqual(['discovery_failed', expect.stringMatching(/^\d+$/), expect.stringMatching(/refused/)]);
    await text('forwards', 'remove', 'down');
  });

  it('that are invalid are rejected before anything is sent', async () => {
    expect(await sluice(['forwards', 'add', 'x', 'localhost:3104/mcp'])).toEqual({
      code: 1,
      out: '',
      err: 'sluice: invalid address "localhost:3104/mcp" for forward "x": expected a URL such as http://127.0.0.1:3001/mcp\n',
    });
    expect(await sluice(['forwards', 'add', 'x', 'http://a', '--prefix', 'a b'])).toEqual({
      code: 1,
      out: '',
      err: 'sluice: invalid forward\n  prefix: must have 1 to 32 characters from A-Z a-z 0-9 _ . -\n',
    });
  });
});

describe('resources', () => {
  it('are added, listed, edited, labeled and removed, and selected by --uri', async () => {
    const add = ['resources', 'add', '--name', 'handbook', '--type', 'documents', '-N', 'docs'];
    const about = ['--description', 'How to', '--mimeType', 'text/markdown', '--param', 'k=v=w', '-l', 'a=b'];
    const uris = ['--configuration-uri', 'config://1', '--secrets-uri', 'vault://1'];
    await text(...add, '--location', 'docs://one', ...about, ...uris);
    expect(await json('resources', 'show', 'handbook')).toMatchObject({
      configurationURI: 'config://1',
      secretsURI: 'vault://1',
      location: 'docs://one',
      mimeType: 'text/markdown',
      params: [{ name: 'k', value: 'v=w' }],
      labels: { a: 'b' },
    });
    await text(...add, '--location', 'docs://two');
    expect((await sluice(['resources', 'show', 'handbook'])).err).toMatch(/\n {2}uris: docs:\/\/one, docs:\/\/two\n$/);
    await text('resources', 'edit', 'handbook', '--uri', 'docs://two', '-d', 'Second', '--mime-type', 'text/plain');
    await text('resources', 'label', 'add', 'handbook', 'x=y', '--uri', 'docs://two');
    expect(cells(await text('resources', 'list', '-N', 'docs'))).toEqual([
      ['NAME', 'NAMESPACE', 'LOCATION', 'TYPE', 'FORWARD', 'DESCRIPTION'],
      ['handbook', 'docs', 'docs://one', 'documents', '-', 'How to'],
      ['handbook', 'docs', 'docs://two', 'documents', '-', 'Second'],
    ]);
    for (const uri of ['docs://one', 'docs://two']) await text('resources', 'remove', 'handbook', '--uri', uri);
    expect(await sluice(['resources', 'list'])).toEqual({ code: 0, out: '', err: 'no resources\n' });
  });
});

describe('prompts', () => {
  it('are added, listed, shown, edited and removed', async () => {
    const add = [
      'prompts',
      'add',
      '-n',
      'greet',
      '-d',
      'Greets',
      '-m',
      'system:Be kind: always.',
      '-m',
      'user:Hello {who}.',
    ];
    await text(...add, '-a', 'who:Whom: a name:required', '-a', 'how');
    expect(await json('prompts', 'show', 'greet')).toMatchObject({
      messages: [
        { role: 'system', content: 'Be kind: always.' },
        { role: 'user', content: 'Hello {who}.' },
      ],
      arguments: [
        { name: 'who', description: 'Whom: a name', required: true },
        { name: 'how', description: '', required: false },
      ],
    });
    expect(cells(await text('prompts', 'list'))[1]).toEqual(['greet', 'default', 'who, how?', '-', 'Greets']);
    await text('prompts', 'edit', 'greet', '-n', 'hello', '-m', 'user:Hi.', '--move-to', 'talk');
    expect(await json('prompts', 'show', 'hello')).toMatchObject({ namespace: 'talk', messages: [{ content: 'Hi.' }] });
    expect(await text('prompts', 'remove', 'hello')).toBe('removed prompt hello from talk\n');
  });
});

describe('namespaces', () => {
  it('are created once, listed, labeled and deleted', async () => {
    expect(await text('namespaces', 'create', 'finance', '-l', 'team=f')).toBe('created namespace finance\n');
    expect(await text('namespaces', 'create', 'finance')).toBe('namespace finance already exists\n');
    expect(await text('namespaces', 'label', 'add', 'finance', 'a=b')).toBe('namespace finance: team=f,a=b\n');
    expect(await text('namespaces', 'list')).toMatch(/^finance +http:\/\/\S+\/finance\/mcp +0 +0 +team=f,a=b$/m);
    await commandLine.service.register('tools', { ...TOOL, namespace: 'finance' });
    expect(cells(await text('namespaces', 'view', 'finance', '--era', 'legacy'))).toEqual([
      ['KIND', 'NAME', 'OFFERED', 'SOURCE', 'OVERRIDES', 'SHADOWS'],
      ['tool', TOOL.name, 'yes', `manual: ${TOOL.toolType}`, '-', '-'],
    ]);
    expect((await sluice(['namespaces', 'delete', 'finance'])).err).toMatch(/\(409 CONFLICT\)\n {2}tools: 1\n/);
    expect(await json('namespaces', 'delete', 'finance', '--cascade')).toEqual({ removed: 'finance' });
    expect((await sluice(['namespaces', 'create', 'Finance'])).err).toMatch(
      /^sluice: invalid namespace\n {2}name: must consist/,
    );
  });

  it('named public are created with a warning', async () => {
    expect((await sluice(['namespaces', 'create', 'public'])).err).toMatch(/^warning: authenticating proxies/);
  });
});

describe('time series', () => {
  it('have a row per step or per group', async () => {
    const [head, ...rows] = cells(await text('time-series', '--since', '5m'));
    expect(head).toEqual([
      ...['TIME', 'CALLS', 'FAILED', 'TOOL ERRORS', 'TIMEOUTS', 'CANCELED', 'BLOCKED'],
      ...['P50 MS', 'P95 MS', 'COMPLETIONS', 'LOOP DELAY MS', 'MEMORY MIB'],
    ]);
    expect(rows.length).toBeGreaterThanOrEqual(5);
    expect(await sluice(['time-series', '--by', 'tool'])).toEqual({ code: 0, out: '', err: 'no calls\n' });
    expect((await sluice(['time-series', '--step', '7s'])).err).toMatch(/invalid step "7s"/);
  });
});

describe('services', () => {
  it('are added, replaced, listed, shown and removed', async () => {
    const add = [
      'services',
      'add',
      '--name',
      'runner',
      '--address',
      '10.0.0.5:9090',
      '--type',
      'code-execution-engine',
    ];
    expect(await text(...add, '--sub-type', 'deno', '--language', 'ts')).toMatch(
      /^added service runner at 10.0.0.5:9090: /,
    );
    expect(await text(...add, '--sub-type', 'deno', '--language', 'ts')).toMatch(/^replaced service runner/);
    await text('services', 'add', '--name', 'runner', '--address', '[::1]:9091', '--type', 'tool-invoker');
    expect(cells(await text('services', 'list'))[1]?.slice(0, 5)).toEqual([
      'runner',
      '10.0.0.5:9090',
      'code-execution-engine',
      'deno',
      'ts',
    ]);
    expect(await json('services', 'show', 'runner', '--type', 'tool-invoker')).toMatchObject({
      host: '::1',
      port: 9091,
    });
    expect(await text('services', 'remove', 'runner')).toBe('removed service runner: 2 entries\n');
    expect(
      await sluice(['services', 'add', '-n', 'x', '--address', 'nowhere', '--type', 'tool-invoker']),
    ).toMatchObject({
      code: 1,
      err: expect.stringContaining('address: must be host:port without http://'),
    });
  });
});

describe('the metrics of the service', () => {
  it('are printed by metrics: a row for each filter, and everything with --output json', async () => {
    await fetch(commandLine.service.url(), { method: 'POST', body: 'no JSON' });
    const [head, ...rows] = cells(await text('metrics'));
    const { data } = await commandLine.service.manage('GET', '/metrics');
    const { filters }: { filters: object } = Object(data);
    expect(head?.slice(0, 5)).toEqual(['FILTER', 'CONTINUE', 'REJECT', 'OTHER', 'ERRORS']);
    expect(rows.map(([name]) => name)).toEqual(Object.keys(filters));
    expect(rows.find(([name]) => name === 'cors')?.slice(1, 6)).toEqual(['1', '0', '0', '0', '1']);
    expect(await json('metrics')).toEqual(data);
  });

  it('include all other nonzero counters', async () => {
    const duration = { count: 2, total_ms: 3.5, avg_ms: 1.75 };
    const counted = {
      filters: {},
      evaluators: { guard: { decisions: { pass: 7, block: 0 }, pipeline_duration: duration } },
      pipeline: { trigger_matches: 0, trigger_misses: 4 },
      gauges: { evaluators_loaded: 0 },
    };
    const other = createHttpServer((_request, response) => {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ data: counted, error: null }));
    });
    const host = `http://127.0.0.1:${await listen(other, 0)}`;
    const { out, err } = await sluice(['metrics', '--host', host]);
    other.closeAllConnections();
    other.close();
    expect(err).toBe('no filters\n');
    expect(cells(out.trimStart())).toEqual([
      ['COUNTER', 'VALUE'],
      ['evaluators.guard.decisions.pass', '7'],
      ['evaluators.guard.pipeline_duration.count', '2'],
      ['evaluators.guard.pipeline_duration.total_ms', '3.5'],
      ['evaluators.guard.pipeline_duration.avg_ms', '1.75'],
      ['pipeline.trigger_misses', '4'],
    ]);
  });

  it('are printed by statistics: the number of resources of each kind', async () => {
    await commandLine.service.register('tools', TOOL);
    expect(await text('statistics')).toMatch(/^toolsCount: +1\nresourcesCount: +0\n/);
    expect(await json('statistics')).toMatchObject({ toolsCount: 1, forwardsCount: 0 });
  });
});

describe('the command line', () => {
  it('reports that the port is that of the MCP listener, not of the management API', async () => {
    const { origin } = new URL(commandLine.service.url());
    expect(await sluice(['tools', 'list', '--host', origin])).toMatchObject({
      code: 1,
      err: `sluice: ${origin} is the MCP listener; the management API is on another port (8080 by default)\n`,
    });
  });

  it('reports that the port is that of the inference listener, whose upstream is down', async () => {
    const silent = createHttpServer();
    const upstream = `127.0.0.1:${await listen(silent, 0)}`;
    await new Promise((resolve) => silent.close(resolve));
    await commandLine.service.manage('POST', '/config/inference', { upstream });
    const host = `http://${commandLine.service.addresses.inference}`;
    expect((await sluice(['tools', 'list', '--host', host])).err).toBe(
      `sluice: ${host} is the inference listener; the management API is on another port (8080 by default)\n`,
    );
  });

  it('logs requests to standard error with --verbose', async () => {
    const { out, err } = await sluice(['health', '--verbose']);
    expect(out).toBe('ok\n');
    expect(err).toMatch(/^GET \/healthz 200 \d+ ms\n$/);
    expect(await json('health')).toEqual({ status: 'ok' });
  });

  it('prints YAML with --output yaml', async () => {
    await commandLine.service.register('tools', TOOL);
    await text('tools', 'label', 'add', 'weather', 'version=1.0');
    for (const command of [
      ['tools', 'list'],
      ['tools', 'show', 'weather'],
      ['statistics'],
      ['evaluators', 'bindings'],
    ]) {
      const { content } = parseLocated(await text(...command, '-o', 'yaml'), 'output');
      expect(content).toEqual(await json(...command));
    }
    expect(await text('tools', 'remove', 'weather', '-o', 'yaml')).toBe('removed: weather\n');
    expect(await sluice(['tools', 'list', '-o', 'yaml'])).toEqual({ code: 0, out: '[]\n', err: '' });
  });

  it('prints a name per line with --output name', async () => {
    expect(await text('tools', 'add', '-n', 'a', '-u', 'x:y', '--type', 't', '-d', '', '-o', 'name')).toBe('a\n');
    await commandLine.service.register('tools', { ...TOOL, name: 'b', namespace: 'other' });
    expect(await text('tool', 'ls', '-o', 'name')).toBe('a\nb\n');
    expect(await text('tool', 'get', 'a', '-o', 'name')).toBe('a\n');
    expect(await text('tools', 'rm', 'a', '-o', 'name')).toBe('a\n');
    expect(await text('ns', 'ls', '-o', 'name')).toBe('default\nother\n');
    expect(await sluice(['forwards', 'list', '-o', 'name'])).toEqual({ code: 0, out: '', err: 'no forwards\n' });
    expect(await text('evaluators', 'bind', 'other', 'c-1', '-o', 'name')).toBe('other\n');
    expect(await text('evaluators', 'bindings', '-o', 'name')).toBe('other\n');
    expect(await text('evaluators', 'unbind', 'other', '-o', 'name')).toBe('other\n');
  });

  it('rejects --output name before it runs a command that prints no names', async () => {
    for (const command of ['metrics', 'export', 'mcp tool', 'interactions clear', 'auth status']) {
      expect(await sluice([...command.split(' '), '-o', 'name'])).toEqual({
        code: 1,
        out: '',
        err: `sluice: --output name: "sluice ${command}" prints no names; use table, json or yaml\n`,
      });
    }
  });

  it('colors only output to a terminal, and none with --plain or NO_COLOR', async () => {
    const list = (argv: readonly string[], env: Record<string, string>) =>
      sluice(['namespaces', 'list', ...argv], { answers: [], columns: 80, env });
    expect((await list([], { NO_COLOR: '' })).out).toContain('\u001b[1m');
    expect((await list(['--plain'], { NO_COLOR: '' })).out).not.toContain('\u001b');
    expect((await list([], { NO_COLOR: '1' })).out).not.toContain('\u001b');
    expect(await text('namespaces', 'list')).not.toContain('\u001b');
  });

  it('completes names from the service, also for bash, without expansion', async () => {
    const hostile = '$(touch pwned);"\'';
    await commandLine.service.register('tools', { ...TOOL, name: hostile, namespace: 'shell' });
    const context = ['--host', commandLine.service.management, '--no-auth'];
    const zsh = await sluice(['complete', 'zsh', '--', ...context, 'tools', 'show', '$']);
    expect(zsh.out).toBe(`${hostile}\n`);
    const line = `sluice ${context.join(' ')} tools list --namespace=sh`;
    expect((await sluice(['complete', 'bash', '--', line])).out).toBe('shell\n');
    await text('namespaces', 'delete', 'shell', '--cascade');
  });

  it('mentions --insecure for an invalid certificate, and accepts any with it', async () => {
    const secure = createServer(localhostCertificate, (_request, response) => {
      response.setHeader('content-type', 'application/json');
      response.end('{"data":{"status":"ok"},"error":null}');
    });
    const host = `https://localhost:${await listen(secure, 0)}`;
    const rejected = await sluice(['health', '--host', host]);
    expect(rejected).toMatchObject({ code: 1, out: '' });
    expect(rejected.err).toMatch(new RegExp(`^sluice: invalid certificate at ${host} \\(.+\\); use --insecure `));
    expect(await sluice(['health', '--host', host, '--insecure'])).toEqual({ code: 0, out: 'ok\n', err: '' });
    secure.closeAllConnections();
    secure.close();
  });
});
