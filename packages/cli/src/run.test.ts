import { describe, expect, it } from 'vitest';
import manifest from '../package.json' with { type: 'json' };
import { run } from './run.ts';
import { scriptedTerminal } from './testing/scripted-terminal.ts';

// Command-line parsing: nothing here sends a request.

const sluice = (...argv: string[]) => sluiceWith({}, ...argv);

async function sluiceWith(env: Readonly<Record<string, string>>, ...argv: string[]) {
  const terminal = scriptedTerminal({ env: { XDG_CONFIG_HOME: '/nowhere', ...env } });
  const code = await run(argv, terminal);
  return { code, out: terminal.out(), err: terminal.err() };
}

describe('the command line', () => {
  it('prints help and version on standard output, with exit code 0, for the program and for each command', async () => {
    const help = await sluice('--help');
    expect(help).toMatchObject({ code: 0, err: '' });
    for (const group of [
      'serve',
      'pipeline',
      'forwards',
      'namespaces',
      'tools',
      'resources',
      'prompts',
      'services',
      'evaluators',
      'health',
      'statistics',
      'metrics',
      'interactions',
      'tool-calls',
      'auth',
    ]) {
      expect(help.out).toMatch(new RegExp(`^ {2}${group} `, 'm'));
    }
    expect(help.out).not.toMatch(/^ {2}complete /m);
    expect((await sluice('tools', 'add', '-h')).out).toMatch(/Global Options:.*--host <url>.*Example:/s);
    expect(await sluice('tools', 'list', '--version')).toEqual({ code: 0, out: `${manifest.version}\n`, err: '' });
  });

  it('reports unknown commands and options with a suggestion', async () => {
    expect(await sluice('tols')).toEqual({
      code: 1,
      out: '',
      err: "sluice: unknown command 'tols'\n(Did you mean tools?)\n",
    });
    expect((await sluice('tools', 'lst')).err).toContain('(Did you mean list?)');
    expect((await sluice('tools', 'list', '--namspace', 'x')).err).toContain('(Did you mean --namespace?)');
  });

  it('prints help and exits with 0 without a command, for the program and for each group', async () => {
    for (const group of [[], ['tools'], ['tool', '--host', 'a'], ['evaluators', 'revisions'], ['mcp']]) {
      const { out, ...others } = await sluice(...group);
      expect(others).toEqual({ code: 0, err: '' });
      expect(out).toBe((await sluice(...group, '--help')).out);
    }
    expect((await sluice('tools', '--bogus')).err).toBe("sluice: unknown option '--bogus'\n");
  });

  it('suggests the closest choice', async () => {
    expect((await sluice('configure', 'vscod')).err).toMatch(/Allowed choices are .*\n\(Did you mean vscode\?\)\n$/);
    expect((await sluice('tool-calls', '--category', 'execution_eror')).err).toMatch(
      /Allowed choices are .*\n\(Did you mean EXECUTION_ERROR\?\)\n$/,
    );
    expect((await sluice('configure', 'qqqqqqqq')).err).not.toContain('Did you mean');
  });

  it('prints the help of nested commands and accepts hidden aliases', async () => {
    const { out } = await sluice('tools', 'remove', '--help');
    expect(out).toMatch(/^Usage: sluice tools remove \[options\] \[tool\]\n/);
    for (const words of ['help tools remove', 'tools delete -h', 'help tools delete', 'tool rm -h', 'tool help rm']) {
      expect(await sluice(...words.split(' '))).toEqual({ code: 0, out, err: '' });
    }
    expect((await sluice('help')).out).toBe((await sluice('--help')).out);
    expect((await sluice('tools', '--help')).out).toMatch(/^ {2}remove \[options\] \[tool\] /m);
    expect((await sluice('help', 'tools', 'lst')).err).toBe('sluice: unknown command: sluice tools lst\n');
    expect((await sluice('resources', 'create', '-h')).out).toContain('sluice resources add');
    expect((await sluice('namespaces', 'add', '-h')).out).toContain('sluice namespaces create');
  });

  it('rejects a token together with --no-auth', async () => {
    const { code, err } = await sluice('health', '--token', 'abc', '--no-auth');
    expect(code).toBe(1);
    expect(err).toBe("sluice: option '--no-auth' cannot be used with option '--token <token>'\n");
  });

  it('validates the host and the token', async () => {
    const hosts = {
      99999: 'or a port',
      'http://a/api/v1/': 'omit the path: http://a\n',
      'http://a/gateway/api/v1': 'omit the path: http://a/gateway\n',
      'http://u:p@a': 'user name',
      'http://a?b': 'query',
    };
    for (const [host, reason] of Object.entries(hosts)) {
      expect((await sluice('health', '--no-auth', '--host', host)).err).toMatch(
        new RegExp(`^sluice: --host.*: .*${reason}`),
      );
    }
    expect((await sluice('health', '--no-auth', '--host', 'ftp://a')).err).toBe(
      'sluice: --host "ftp://a": expected an http:// or https:// URL such as http://localhost:8080, or a port\n',
    );
    const { err } = await sluice('health', '--token', 'to\nken');
    expect(err).toBe('sluice: --token: contains characters that are not allowed in an access token\n');
  });

  it('reads host and credentials from the environment', async () => {
    const unreachable = { SLUICE_HOST: 'no-such-host.invalid:8080', SLUICE_NO_AUTH: '1' };
    expect((await sluiceWith(unreachable, 'health')).err).toBe('sluice: unknown host: no-such-host.invalid\n');
    expect((await sluiceWith(unreachable, 'health', '--host', 'other.invalid')).err).toBe(
      'sluice: unknown host: other.invalid\n',
    );
    const rejected = {
      'SLUICE_HOST "ftp://a": expected an http': { SLUICE_HOST: 'ftp://a' },
      'SLUICE_NO_AUTH: expected 1': { SLUICE_NO_AUTH: 'yes' },
      'SLUICE_NO_AUTH cannot be used with SLUICE_TOKEN': { SLUICE_NO_AUTH: '1', SLUICE_TOKEN: 'abc' },
      'SLUICE_TOKEN: contains characters': { SLUICE_TOKEN: 'to\nken' },
    };
    for (const [message, env] of Object.entries(rejected)) {
      expect((await sluiceWith(env, 'health')).err).toMatch(new RegExp(`^sluice: ${message}`));
    }
  });

  it('accepts a host without a scheme, and a port of this computer', async () => {
    const hosts = {
      // A port that the system never assigns.
      2: 'http://localhost:2',
      ':2': 'http://localhost:2',
      '127.0.0.1:2': 'http://127.0.0.1:2',
      '[::1]:2': 'http://[::1]:2',
      'http://127.0.0.1:2/': 'http://127.0.0.1:2',
    };
    for (const [host, url] of Object.entries(hosts)) {
      expect((await sluice('health', '--no-auth', '--host', host)).err).toBe(
        `sluice: connection refused by ${url}: check that the service is running\n`,
      );
    }
  });

  it('rejects invalid option values with the expected form', async () => {
    expect((await sluice('tools', 'list', '--output', 'xml')).err).toContain(
      'Allowed choices are table, json, yaml, name',
    );
    const add = ['tools', 'add', '-n', 'a', '--no-auth'];
    expect((await sluice(...add, '-l', 'novalue')).err).toBe('sluice: invalid value "novalue": expected key=value\n');
    expect((await sluice(...add, '-p', 'city:text')).err).toMatch(
      /^sluice: -p city:text: expected name:type,description/,
    );
    expect((await sluice(...add, '-p', 'city', '-r', 'town')).err).toMatch(/^sluice: --required town: /);
    expect((await sluice('prompts', 'add', '-m', 'nobody:hello')).err).toMatch(/^sluice: -m nobody:hello: /);
    expect((await sluice('tools', 'import', 'missing.json')).err).toBe('sluice: missing.json: no such file\n');
    expect((await sluice('forwards', 'refresh')).err).toBe(
      'sluice: missing name of the forward: pass it as an argument or with --name\n',
    );
    expect((await sluice('tools', 'remove')).err).toBe(
      'sluice: missing name of the tool: pass it as an argument or with --name\n',
    );
    expect((await sluice('forwards', 'add')).err).toBe(
      'sluice: missing name of the forward: pass it as an argument or with --name\n',
    );
    expect((await sluice('forwards', 'add', 'a')).err).toBe(
      'sluice: missing URL of the forward: sluice forwards add a URL\n',
    );
    expect((await sluice('forwards', 'add', 'a', 'http://a', '--url', 'http://b')).err).toBe(
      'sluice: the URL of the forward is given twice: omit --url\n',
    );
    expect((await sluice('mcp', 'tool')).err).toBe(
      'sluice: missing name of the tool: run "sluice mcp tool list" to list the tools\n',
    );
    expect((await sluice('mcp', 'resource', 'a:b', '--resource-uri', 'a:c')).err).toBe(
      'sluice: the URI of the resource is given twice: omit --resource-uri\n',
    );
    for (const limit of ['0', '1001', '1.5', 'x', '']) {
      expect((await sluice('tool-calls', '--limit', limit)).err).toBe(
        `sluice: --limit "${limit}": expected a number from 1 to 1000\n`,
      );
    }
    const evaluators = (...argv: string[]) => sluice('evaluators', '--no-auth', ...argv);
    for (const revision of ['-1', '1.5', 'x', '', '9007199254740993']) {
      const expecting = await evaluators('apply', '-f', 'e.yaml', `--expected-revision=${revision}`);
      expect(expecting.err, revision).toContain('Expected a whole number from 0.');
    }
    expect((await evaluators('apply')).err).toMatch(/^sluice: required option '-f, --file <file>' not specified/);
    expect((await evaluators('apply', '-f', 'missing.yaml')).err).toBe('sluice: missing.yaml: no such file\n');
    expect((await evaluators('revisions', 'activate', 'active')).err).toContain('Expected a whole number from 1.');
    expect((await evaluators('revisions', 'show', '0')).err).toContain('Expected a whole number from 1, or active.');
    expect((await evaluators('bind', 'No Namespace', 'c-1')).err).toMatch(
      /^sluice: invalid namespace\n {2}must consist/,
    );
    expect((await evaluators('unbind', '')).err).toBe('sluice: invalid namespace\n  must have 1 to 63 characters\n');
    expect((await sluice('services', 'show', 'a', '-n', 'a')).err).toMatch(
      /^sluice: the name of the service is given twice/,
    );
    expect((await sluice('apply', '--help')).out).toContain('-y, --yes');
    const { out } = await sluice('serve', '--help');
    expect(out).toContain('--pipeline-config <file>');
  });
});

describe('completion', () => {
  const complete = async (...words: string[]) =>
    (await sluice('complete', 'zsh', '--', ...words)).out.split('\n').map((line) => line.split('\t')[0]);

  it('completes commands, options and option values', async () => {
    expect(await complete('to')).toEqual(['tools', 'tool-calls', '']);
    expect(await complete('tools', 'l')).toEqual(['list', 'label', '']);
    expect(await complete('tools', 'list', '--n')).toEqual(['--namespace', '--no-auth', '']);
    for (const alias of ['delete', 'rm', 'get']) {
      expect(await complete('tool', alias, '--na')).toEqual(['--name', '--namespace', '']);
    }
    expect(await complete('action', 'build', '-o', '')).toEqual(['']);
    expect(await complete('--output', 'j')).toEqual(['json', '']);
    expect(await complete('--host', 'x', 'tools', 'list', '--output=')).toEqual([
      '--output=table',
      '--output=json',
      '--output=yaml',
      '--output=name',
      '',
    ]);
    expect(await complete('services', 'add', '--type', 'tool')).toEqual(['tool-invoker', '']);
    expect(await complete('tool-calls', '--category', 'E')).toEqual(['EXECUTION_ERROR', '']);
    expect(await complete('evaluators', 'b')).toEqual(['bind', 'bindings', '']);
    expect(await complete('evaluators', 'revisions', 'activate', '--ex')).toEqual(['--expected-revision', '']);
    expect(await complete('tool-calls', '--f')).toEqual(['--follow', '']);
    expect(await complete('completion', '')).toEqual(['bash', 'zsh', 'fish', '']);
  });

  it('prints nothing when names are unavailable or the shell completes files', async () => {
    const unreachable = ['--no-auth', '--host', 'http://127.0.0.1:1'];
    expect(await sluice('complete', 'zsh', '--', ...unreachable, 'tools', 'show', '')).toEqual({
      code: 0,
      out: '',
      err: '',
    });
    expect(await complete('tools', 'import', '')).toEqual(['']);
    expect(await complete('apply', '-f', '')).toEqual(['']);
  });
});
