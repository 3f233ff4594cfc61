import { once } from 'node:events';
import {
  chmod,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { run } from '../run.ts';
import { scriptedTerminal } from '../testing/scripted-terminal.ts';

// A person's home folder and a project, on Linux; no service runs where these commands look for it.

let home: string;
let project: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'sluice-configure-'));
  project = join(home, 'work');
  await mkdir(project);
});
afterEach(() => rm(home, { recursive: true }));

interface Outcome {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

async function sluice(args: readonly string[], answers?: readonly string[]): Promise<Outcome> {
  const terminal = scriptedTerminal({ env: { HOME: home }, cwd: project, ...(answers && { answers }) });
  // Nothing listens on port 1.
  const code = await run(['--host', 'http://127.0.0.1:1', 'configure', ...args], terminal);
  return { code, out: terminal.out(), err: terminal.err() };
}

const URL_OF_DEFAULT = 'http://127.0.0.1:2/default/mcp';
const FILES = {
  claude: '.config/Claude/claude_desktop_config.json',
  'claude-code': '.claude.json',
  cursor: '.cursor/mcp.json',
  vscode: '.config/Code/User/mcp.json',
} as const;
type ProgramName = keyof typeof FILES;

async function put(path: string, text: string): Promise<string> {
  const file = join(home, path);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, text);
  return file;
}

const read = (path: string) => readFile(join(home, path), 'utf8');

function lines(...texts: readonly string[]): string {
  return texts.map((text) => `${text}\n`).join('');
}

const BRIDGED = { command: 'npx', args: ['-y', 'mcp-remote', URL_OF_DEFAULT] };
const NEW_NAMESPACE_NOTE: readonly (readonly [ProgramName, unknown])[] = [
  ['claude', { mcpServers: { sluice: BRIDGED } }],
  ['claude-code', { mcpServers: { sluice: { type: 'http', url: URL_OF_DEFAULT } } }],
  ['cursor', { mcpServers: { sluice: { url: URL_OF_DEFAULT } } }],
  ['vscode', { servers: { sluice: { type: 'http', url: URL_OF_DEFAULT } } }],
];

it('takes the URL that the service publishes, unless another one is given', async () => {
  const server = createServer((request, response) => {
    const name = request.url?.split('/').at(-1);
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ data: { name, labels: {}, mcpUrl: `https://h.example/gw/${name}/mcp` } }));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = server.address();
  // The path of the management API says nothing about MCP.
  const host = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/ops`;
  const configured = async (...args: readonly string[]) => {
    const terminal = scriptedTerminal({ env: { HOME: home }, cwd: project });
    await run(['--host', host, 'configure', 'cursor', '--yes', ...args], terminal);
    return JSON.parse(await read(FILES.cursor)).mcpServers;
  };
  try {
    expect(await configured()).toEqual({ sluice: { url: 'https://h.example/gw/default/mcp' } });
    expect(await configured('-N', 'a', '--mcp-url', 'https://other.example')).toMatchObject({
      'sluice-a': { url: 'https://other.example/a/mcp' },
    });
  } finally {
    server.close();
    server.closeAllConnections();
  }
});

describe('a program that has no configuration yet', () => {
  it.each(NEW_NAMESPACE_NOTE)('%s gets one, which only its owner can read', async (program, expected) => {
    const { code, out, err } = await sluice([program, '--yes']);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(out).toContain('+++ ');
    expect(out).toContain(`Updated ${join(home, FILES[program])}.`);
    expect(await read(FILES[program])).toBe(`${JSON.stringify(expected, null, 2)}\n`);
    expect((await stat(join(home, FILES[program]))).mode & 0o777).toBe(0o600);
  });

  it.each([
    ['claude-code', '.mcp.json'],
    ['cursor', '.cursor/mcp.json'],
    ['vscode', '.vscode/mcp.json'],
  ])('%s gets one in the project', async (program, file) => {
    expect(await sluice([program, '--scope', 'project', '--yes'])).toMatchObject({ code: 0 });
    expect(JSON.parse(await read(join('work', file)))).toBeTypeOf('object');
  });

  it('claude has no project configuration', async () => {
    expect(await sluice(['claude', '--scope', 'project', '--yes'])).toMatchObject({
      code: 1,
      err: 'sluice: --scope project: Claude Desktop has no configuration in this scope\n',
    });
  });
});

const EXISTING: readonly (readonly [ProgramName, string, string])[] = [
  [
    'claude',
    lines('{', '\t"theme":"dark",', '\t"mcpServers":{', '\t\t"files": { "command": "npx" }', '\t}', '}'),
    lines(
      '{',
      '\t"theme":"dark",',
      '\t"mcpServers":{',
      '\t\t"files": { "command": "npx" },',
      '\t\t"sluice": {',
      '\t\t\t"command": "npx",',
      '\t\t\t"args": [',
      '\t\t\t\t"-y",',
      '\t\t\t\t"mcp-remote",',
      `\t\t\t\t"${URL_OF_DEFAULT}"`,
      '\t\t\t]',
      '\t\t}',
      '\t}',
      '}',
    ),
  ],
  [
    'claude-code',
    lines('{', '  "numStartups": 12345678901234567890,', '  "projects": {"/a": {"mcpServers": {}}}', '}'),
    lines(
      '{',
      '  "numStartups": 12345678901234567890,',
      '  "projects": {"/a": {"mcpServers": {}}},',
      '  "mcpServers": {',
      '    "sluice": {',
      '      "type": "http",',
      `      "url": "${URL_OF_DEFAULT}"`,
      '    }',
      '  }',
      '}',
    ),
  ],
  [
    'cursor',
    '{"mcpServers":{"a":{"url":"https://a.example/mcp"}}}',
    `{"mcpServers":{"a":{"url":"https://a.example/mcp"},"sluice":{"url":"${URL_OF_DEFAULT}"}}}`,
  ],
  [
    'vscode',
    lines(
      '// Servers of mine',
      '{',
      '    "inputs": [], // none',
      '    "servers": {',
      '        /* the first */ "a": {"type": "stdio",   "command": "a"}, // keep',
      '        // more to come',
      '    },',
      '}',
    ),
    lines(
      '// Servers of mine',
      '{',
      '    "inputs": [], // none',
      '    "servers": {',
      '        /* the first */ "a": {"type": "stdio",   "command": "a"}, // keep',
      '        "sluice": {',
      '            "type": "http",',
      `            "url": "${URL_OF_DEFAULT}"`,
      '        },',
      '        // more to come',
      '    },',
      '}',
    ),
  ],
];

describe('a program that has a configuration', () => {
  it.each(EXISTING)('%s keeps all existing members', async (program, before, after) => {
    await put(FILES[program], before);
    expect(await sluice([program, '--yes'])).toMatchObject({ code: 0 });
    expect(await read(FILES[program])).toBe(after);
  });

  it.each(EXISTING)(
    '%s changes nothing the second time, and --remove restores the file',
    async (program, before, after) => {
      const file = await put(FILES[program], before);
      await sluice([program, '--yes']);
      const { mtimeMs, ino } = await stat(file);
      expect(await sluice([program])).toEqual({
        code: 0,
        out: `Nothing to do: ${file} has "sluice" already\n`,
        err: '',
      });
      expect(await stat(file)).toMatchObject({ mtimeMs, ino });
      expect(await read(FILES[program])).toBe(after);
      const removal = await sluice([program, '--remove', '--yes']);
      expect(removal).toMatchObject({ code: 0 });
      expect(removal.out).toContain(`Updated ${file}. Restart`);
      expect(removal.out).not.toMatch(/(?:enable|shows) the/);
      const removed = await read(FILES[program]);
      // The member for all servers remains, also if the file had none before.
      expect(removed).toBe(
        program === 'claude-code' ? before.replace(/\n\}\n$/, ',\n  "mcpServers": {}\n}\n') : before,
      );
      expect(await sluice([program, '--remove'])).toMatchObject({
        code: 0,
        out: `Nothing to do: ${file} does not have "sluice"\n`,
      });
    },
  );

  it('keeps CRLF line breaks, a byte order mark and the mode', async () => {
    const file = await put(FILES.cursor, '\uFEFF{\r\n\t"mcpServers": {}\r\n}\r\n');
    await chmod(file, 0o640);
    expect(await sluice(['cursor', '--yes'])).toMatchObject({ code: 0 });
    expect(await read(FILES.cursor)).toBe(
      `\uFEFF{\r\n\t"mcpServers": {\r\n\t\t"sluice": {\r\n\t\t\t"url": "${URL_OF_DEFAULT}"\r\n\t\t}\r\n\t}\r\n}\r\n`,
    );
    expect((await stat(file)).mode & 0o777).toBe(0o640);
    expect(await readdir(dirname(file))).toEqual(['mcp.json']);
  });

  it('changes only the necessary members of an entry', async () => {
    const file = FILES.cursor;
    await put(
      file,
      lines(
        '{ "mcpServers": { "sluice": {',
        '  "command": "old", // by hand',
        '  "disabled": true,',
        '  "headers": { "x-team": "a" /* mine */ }',
        '} } }',
      ),
    );
    expect(await sluice(['cursor', '--yes', '--token', 't-1'])).toMatchObject({ code: 0 });
    expect(await read(file)).toBe(
      lines(
        '{ "mcpServers": { "sluice": {',
        '   // by hand',
        '  "disabled": true,',
        '  "headers": { "x-team": "a", /* mine */"Authorization":"Bearer t-1" },',
        `  "url": "${URL_OF_DEFAULT}"`,
        '} } }',
      ),
    );
  });

  it('that is empty gets a document', async () => {
    await put(FILES.cursor, '\n');
    expect(await sluice(['cursor', '--yes'])).toMatchObject({ code: 0 });
    expect(JSON.parse(await read(FILES.cursor))).toEqual({ mcpServers: { sluice: { url: URL_OF_DEFAULT } } });
  });
});

describe('a file that cannot be changed', () => {
  it.each([
    ['a comma is missing', '{\n  "a": 1\n  "b": 2\n}', ':3:3: comma expected'],
    ['it is cut off', '{\n  "mcpServers": {', ':2:18: close brace expected'],
    ['it is a list', '[]', ':1:1: expected an object'],
    ['the servers are a list', '{"mcpServers": []}', ':1:16: "mcpServers" is not an object'],
    ['a member is there twice', '{"mcpServers": {}, "mcpServers": {}}', ':1:20: duplicate key "mcpServers"'],
  ])('is rejected with the position, and not modified: %s', async (_what, text, problem) => {
    const file = await put(FILES.cursor, text);
    expect(await sluice(['cursor', '--yes'])).toEqual({
      code: 1,
      out: '',
      err: `sluice: ${file}${problem}; the file was not changed\n`,
    });
    expect(await read(FILES.cursor)).toBe(text);
  });

  it('is rejected if it is not text', async () => {
    const file = join(home, 'config.json');
    await writeFile(file, Buffer.from([0x7b, 0xff, 0x7d]));
    expect(await sluice(['cursor', '--yes', '--file', file])).toMatchObject({
      code: 1,
      err: `sluice: ${file} is not UTF-8 text; the file was not changed\n`,
    });
  });

  it('is rejected if it is a folder', async () => {
    expect(await sluice(['cursor', '--yes', '--file', '..'])).toMatchObject({
      code: 1,
      err: `sluice: ${home} cannot be read: is a folder\n`,
    });
  });
});

describe('symbolic links', () => {
  it('are followed and kept', async () => {
    const file = await put('dotfiles/mcp.json', '{}');
    await mkdir(join(home, '.cursor'));
    await symlink('../dotfiles/mcp.json', join(home, FILES.cursor));
    expect(await sluice(['cursor', '--yes'])).toMatchObject({ code: 0 });
    expect(await readlink(join(home, FILES.cursor))).toBe('../dotfiles/mcp.json');
    expect(JSON.parse(await readFile(file, 'utf8'))).toHaveProperty('mcpServers.sluice');
  });

  it('to a missing file determine where it is created', async () => {
    await symlink('dotfiles/mcp.json', join(home, 'link.json'));
    expect(await sluice(['cursor', '--yes', '--file', '../link.json'])).toMatchObject({ code: 0 });
    expect((await lstat(join(home, 'link.json'))).isSymbolicLink()).toBe(true);
    expect(JSON.parse(await read('dotfiles/mcp.json'))).toHaveProperty('mcpServers.sluice');
  });

  it('are reported by their target', async () => {
    const file = await put('dotfiles/mcp.json', '{}');
    await symlink('dotfiles', join(home, '.cursor'));
    const { out, err } = await sluice(['cursor'], ['y']);
    expect(out).toContain(`--- ${file}\n+++ ${file}\n`);
    expect(err).toBe(`Change ${file}? [y/N] y\n`);
    expect(out).toContain(`Updated ${file}. `);
  });

  it.each([
    ['a file', 'work/.cursor/mcp.json', '../../.bashrc'],
    ['a file that is not there', 'work/.cursor/mcp.json', '../../nothing'],
    ['a folder', 'work/.cursor', '../elsewhere'],
  ])('that lead out of a project are rejected: %s', async (_what, link, to) => {
    await put('.bashrc', '{}');
    await mkdir(join(home, 'elsewhere'));
    await mkdir(dirname(join(home, link)), { recursive: true });
    await symlink(to, join(home, link));
    const { code, err } = await sluice(['cursor', '--scope', 'project', '--yes']);
    expect(code).toBe(1);
    expect(err).toMatch(/^sluice: \S+mcp\.json leads out of the project, to \S+; use --file to change that file\n$/);
    expect(await read('.bashrc')).toBe('{}');
    expect((await readdir(home)).toSorted()).toEqual(['.bashrc', 'elsewhere', 'work']);
    expect(await readdir(join(home, 'elsewhere'))).toEqual([]);
  });

  it('in a cycle are rejected', async () => {
    await symlink('b.json', join(home, 'a.json'));
    await symlink('a.json', join(home, 'b.json'));
    expect(await sluice(['cursor', '--yes', '--file', '../a.json'])).toMatchObject({
      code: 1,
      err: expect.stringContaining('too many symbolic links'),
    });
  });
});

describe('before a change', () => {
  it('prompts for confirmation on a terminal, and applies the change on yes', async () => {
    const { code, err } = await sluice(['cursor'], ['y']);
    expect({ code, err }).toEqual({ code: 0, err: `Change ${join(home, FILES.cursor)}? [y/N] y\n` });
    expect(JSON.parse(await read(FILES.cursor))).toHaveProperty('mcpServers.sluice');
  });

  it.each([
    ['no', ['n']],
    ['an empty line', ['']],
    ['Ctrl-D', []],
  ])('does nothing on %s', async (_what, responses) => {
    expect(await sluice(['cursor'], responses)).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^sluice: nothing was changed\n$/m),
    });
    expect(await readdir(home)).toEqual(['work']);
  });

  it('detects that the client has changed the file in the meantime', async () => {
    const file = await put(FILES.cursor, '{}');
    const terminal = scriptedTerminal({ env: { HOME: home }, cwd: project, answers: [] });
    const stdin = {
      ...terminal.stdin,
      line: async () => {
        await writeFile(file, '{"theme":"dark"}');
        return 'y';
      },
    };
    expect(await run(['configure', 'cursor', '--host', 'http://127.0.0.1:1'], { ...terminal, stdin })).toBe(1);
    expect(terminal.err()).toBe(`sluice: ${file} was changed by another program; run the command again\n`);
    expect(await read(FILES.cursor)).toBe('{"theme":"dark"}');
    expect(await readdir(dirname(file))).toEqual(['mcp.json']);
  });

  it('fails without a terminal', async () => {
    expect(await sluice(['cursor'])).toMatchObject({
      code: 1,
      out: expect.stringContaining('+    "sluice": {'),
      err: `sluice: no terminal for a confirmation: use --yes to change ${join(home, FILES.cursor)}, or --dry-run to print the change\n`,
    });
    expect(await readdir(home)).toEqual(['work']);
  });

  it('prints the change as a diff without writing it with --dry-run', async () => {
    const file = await put(FILES.cursor, lines('{', '  "mcpServers": {}', '}'));
    const { code, out } = await sluice(['cursor', '--dry-run']);
    expect({ code, out }).toEqual({
      code: 0,
      out: lines(
        `--- ${file}`,
        `+++ ${file}`,
        '@@ -1,3 +1,7 @@',
        ' {',
        '-  "mcpServers": {}',
        '+  "mcpServers": {',
        '+    "sluice": {',
        `+      "url": "${URL_OF_DEFAULT}"`,
        '+    }',
        '+  }',
        ' }',
        'Not written (--dry-run)',
      ),
    });
    expect(await read(FILES.cursor)).toBe(lines('{', '  "mcpServers": {}', '}'));
  });

  it('prints the result as JSON, or the change as a diff', async () => {
    const terminal = scriptedTerminal({ env: { HOME: home }, cwd: project });
    const code = await run(
      ['configure', 'cursor', '--dry-run', '--output', 'json', '--no-auth', '--host', 'http://127.0.0.1:1'],
      terminal,
    );
    expect({ code, ...JSON.parse(terminal.out()) }).toEqual({
      code: 0,
      program: 'cursor',
      file: join(home, FILES.cursor),
      server: 'sluice',
      url: URL_OF_DEFAULT,
      change: 'planned',
    });
    expect(terminal.err()).toContain('+++ ');
  });
});

describe('a token', () => {
  it('is written where the client reads it from, never printed, and kept when none is given later', async () => {
    for (const program of ['claude', 'claude-code', 'cursor', 'vscode'] as const) {
      const { code, out, err } = await sluice([program, '--yes', '--token', 's3cret']);
      expect(code).toBe(0);
      expect(out + err).not.toContain('s3cret');
      expect(err).toContain(`warning: the token is stored in plain text in the configuration of ${program}`);
      const text = await read(FILES[program]);
      expect(text).toContain('"Bearer s3cret"');
      expect(await sluice([program])).toMatchObject({ code: 0, out: expect.stringContaining('Nothing to do') });
      expect(await sluice([program, '--yes', '--token', 'another'])).toMatchObject({ code: 0 });
      expect(await read(FILES[program])).toBe(text.replace('s3cret', 'another'));
    }
    expect(JSON.parse(await read(FILES.claude)).mcpServers.sluice).toEqual({
      command: 'npx',
      args: ['-y', 'mcp-remote', URL_OF_DEFAULT, '--header', `Authorization:\${AUTH_HEADER}`],
      env: { AUTH_HEADER: 'Bearer another' },
    });
  });

  it('replaces an existing one, however the header is written', async () => {
    await put(FILES.vscode, '{"servers":{"sluice":{"headers":{"authorization":"Basic x"}}}}');
    expect(await sluice(['vscode', '--yes', '--token', 't'])).toMatchObject({ code: 0 });
    expect(JSON.parse(await read(FILES.vscode)).servers.sluice.headers).toEqual({ authorization: 'Bearer t' });
  });

  it('that refers to an external one needs no warning', async () => {
    const { code, out, err } = await sluice(['cursor', '--yes', '--token', `\${env:TOKEN}`]);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(out).toContain(`+        "Authorization": "Bearer \${env:TOKEN}"`);
  });

  it('in the configuration of a project causes a warning', async () => {
    const { err } = await sluice(['cursor', '--yes', '--token', 't', '--scope', 'project']);
    expect(err).toContain('which others may get with the project; Cursor also takes a reference');
  });

  it('of another server is not printed', async () => {
    await put(
      FILES.cursor,
      lines('{', '  "mcpServers": {', '    "a": { "env": { "API_KEY": "otherServer\\"s" } }', '  }', '}'),
    );
    const { out } = await sluice(['cursor', '--dry-run']);
    expect(out).toContain('"API_KEY": "…"');
    expect(out).not.toContain('otherServer');
  });

  it('of another server is not printed at any position', async () => {
    const otherServer = {
      command: 'npx',
      args: [
        '-y',
        'mcp-remote',
        'https://a.example/mcp',
        '--header',
        'X: s3cret',
        '--password',
        'secretive',
        'sk-s3cret',
      ],
      env: { PLAIN: 's3cret', REFERENCE: `\${env:OTHER}` },
      headers: { 'X-Custom': 's3cret' },
      url: 'https://me:s3cret@b.example/mcp?code=s3cret',
    };
    const [start, rest] = JSON.stringify({ mcpServers: { n: otherServer } }).split('"s3cret"},"url"');
    await put(FILES.cursor, `${start}\n"s3cret" // s3cret\n},"url"${rest}\n`);
    const { out } = await sluice(['cursor', '--dry-run']);
    expect(out).not.toMatch(/s3cret|secretive/);
    expect(out).toContain('["-y","mcp-remote","…","--header","…","--password","…","…"]');
    expect(out).toContain(`{"PLAIN":"…","REFERENCE":"\${env:OTHER}"}`);
    expect(out).toContain('"url":"https://…@b.example/mcp?…"');
    expect(out).toContain(`"${URL_OF_DEFAULT}"`);
  });

  it('of the environment is not written', async () => {
    const env = { HOME: home, SLUICE_TOKEN: 'of-env', SLUICE_HOST: 'http://127.0.0.1:1' };
    const terminal = scriptedTerminal({ env, cwd: project });
    expect(await run(['configure', 'cursor', '--yes'], terminal)).toBe(0);
    expect((await read(FILES.cursor)) + terminal.out()).not.toContain('of-env');
  });

  it('that is replaced is two lines of the diff, both masked', async () => {
    await sluice(['cursor', '--yes', '--token', 'first']);
    const { out } = await sluice(['cursor', '--dry-run', '--token', 'second']);
    expect(out).toContain(lines('-        "Authorization": "…"', '+        "Authorization": "…"'));
  });
});

describe('the written entry', () => {
  it.each([
    ['another namespace', ['-N', 'finance'], 'sluice-finance', 'http://127.0.0.1:2/finance/mcp'],
    ['a name', ['--name', 'tools'], 'tools', URL_OF_DEFAULT],
    [
      'an MCP listener elsewhere',
      ['--mcp-url', 'https://mcp.example/base/'],
      'sluice',
      'https://mcp.example/base/default/mcp',
    ],
    [
      'the endpoint itself',
      ['--mcp-url', 'https://mcp.example/finance/mcp', '-N', 'finance', '--name', 'x'],
      'x',
      'https://mcp.example/finance/mcp',
    ],
  ])('follows %s', async (_what, args, name, url) => {
    expect(await sluice(['cursor', '--yes', ...args])).toMatchObject({ code: 0 });
    expect(JSON.parse(await read(FILES.cursor))).toEqual({ mcpServers: { [name]: { url } } });
  });

  it('allows http for the bridge, which rejects it by default', async () => {
    expect(await sluice(['claude', '--yes', '--mcp-url', 'http://gateway.example:8081'])).toMatchObject({ code: 0 });
    expect(JSON.parse(await read(FILES.claude)).mcpServers.sluice.args).toEqual([
      '-y',
      'mcp-remote',
      'http://gateway.example:8081/default/mcp',
      '--allow-http',
    ]);
  });

  it.each([
    [['-N', 'Finance'], '--namespace "Finance": must consist of lowercase letters, digits and hyphens only'],
    [['--name', 'my tools'], '--name "my tools": must be 1 to 64 letters, digits, hyphens and underscores'],
    [
      ['--mcp-url', 'mcp.example'],
      '--mcp-url "mcp.example": expected an http:// or https:// URL such as http://localhost:8081',
    ],
    [
      ['--host', 'https://sluice.example/api'],
      'cannot derive the MCP listener from --host https://sluice.example/api: use --mcp-url',
    ],
    [
      ['--mcp-url', 'https://mcp.example/finance/mcp'],
      '--mcp-url is the endpoint of namespace finance, not default: use -N finance, or omit /finance/mcp',
    ],
    [['--mcp-url', 'http://a:b@c'], '--mcp-url: must not contain a user name, password, query or fragment'],
  ])('cannot be %j', async (args, problem) => {
    expect(await sluice(['cursor', '--yes', ...args])).toEqual({ code: 1, out: '', err: `sluice: ${problem}\n` });
    expect(await readdir(home)).toEqual(['work']);
  });
});
