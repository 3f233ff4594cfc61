import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { run } from '../packages/cli/src/run.ts';
import { type Script, scriptedTerminal } from '../packages/cli/src/testing/scripted-terminal.ts';
import { type DualEra, startDualEra } from './fixtures/dual-era.ts';
import { ENVIRONMENT } from './fixtures/environment.ts';
import { type Everything, startEverything } from './fixtures/everything.ts';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { listen } from './fixtures/http-server.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';

// `sluice mcp` and `sluice configure` against real servers. The commands run in this process, except for the last ones.

interface Outcome {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

let home: string;
let gateway: Gateway;
let modern: DualEra;
let legacy: DualEra;
let everything: Everything;

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'sluice-cli-mcp-'));
  [gateway, modern, legacy, everything] = await Promise.all([
    startGateway(),
    startDualEra({ eras: 'modern' }),
    startDualEra({ eras: 'legacy' }),
    startEverything(),
  ]);
  await gateway.forward('modern', modern.url, 'modern');
  await gateway.forward('legacy', legacy.url, 'legacy');
  await gateway.forward('everything', everything.url, 'everything');
});
afterAll(async () => {
  await Promise.all([gateway.close(), modern.close(), legacy.close(), everything.close()]);
  await rm(home, { recursive: true });
});

async function sluice(args: readonly string[], script: Script = {}): Promise<Outcome> {
  const terminal = scriptedTerminal({ env: { HOME: home }, cwd: home, ...script });
  const code = await run(args, terminal);
  return { code, out: terminal.out(), err: terminal.err() };
}

const TARGETS: readonly (readonly [string, () => string])[] = [
  ['a modern server', () => modern.url],
  ['a legacy server', () => legacy.url],
  ['a modern server behind the gateway', () => gateway.url('modern')],
  ['a legacy server behind the gateway', () => gateway.url('legacy')],
];

describe.each(TARGETS)('%s', (_what, address) => {
  const mcp = (kind: string, args: readonly string[], script?: Script) =>
    sluice(['mcp', ...kind.split(' '), '--uri', address(), ...args], script);

  it('lists its tools, resources with their templates, and prompts', async () => {
    const tools = await mcp('tool list', []);
    expect(tools).toMatchObject({ code: 0, err: '' });
    expect(tools.out).toMatch(/^NAME +PARAMS +DESCRIPTION\n/);
    expect(tools.out).toMatch(/^weather_report +city\*, days +Everything/m);
    const resources = await mcp('resource list', []);
    expect(resources.out).toMatch(/^test:\/\/static-text +resource +text\/plain +static-text +A static text/m);
    expect(resources.out).toMatch(/^test:\/\/template\/\{id\}\/data +template +application\/json/m);
    const prompts = await mcp('prompt list', []);
    expect(prompts.out).toMatch(/^test_prompt_with_arguments +arg1\*, arg2\* +A prompt with required/m);
    const json = await mcp('tool list', ['--output', 'json']);
    expect(JSON.parse(json.out)).toContainEqual(expect.objectContaining({ name: 'echo_arguments' }));
  });

  it('calls tools', async () => {
    const args = ['-n', 'weather_report', '-p', 'city=Rome', '-p', 'days=2'];
    expect(await mcp('tool', args)).toEqual({
      code: 0,
      out: expect.stringMatching(
        /^Sunny in Rome\n\[resource, test:\/\/static-text, text\/plain, A link\]\n\{\n {2}"city": "Rome",/,
      ),
      err: '',
    });
    const { code, out } = await mcp('tool', [...args, '--output', 'json']);
    expect({ code, ...JSON.parse(out) }).toMatchObject({
      code: 0,
      content: [{ type: 'text', text: 'Sunny in Rome' }, { type: 'resource_link' }],
      structuredContent: { city: 'Rome', celsius: 21.5 },
      _meta: { 'example.com/request': 'r-1' },
    });
  });

  it('distinguishes a successful, a failing and an unknown tool', async () => {
    expect(await mcp('tool', ['-n', 'test_error_handling'])).toEqual({
      code: 1,
      out: 'This tool intentionally returns an error for testing\n',
      err: '',
    });
    expect(await mcp('tool', ['-n', 'protocol_error', '--verbose'])).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringMatching(
        /^sluice: error -32050: quota used up: "daily"\n {2}data: \{"retryAfter":30,"nested":\{"list":\[1,null\]\}\}\n$/m,
      ),
    });
    expect(await mcp('tool', ['-n', 'nope'])).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^sluice: error -32602: .*nope.*\n$/),
    });
  });

  it('prints progress and log messages separately from the result', async () => {
    expect(await mcp('tool', ['-n', 'test_tool_with_progress'])).toMatchObject({
      code: 0,
      err: '0/100 Completed step 0 of 100\n50/100 Completed step 50 of 100\n100/100 Completed step 100 of 100\n',
    });
    const messages = '[info] Tool execution started\n[info] Tool processing data\n[info] Tool execution completed\n';
    expect(await mcp('tool', ['-n', 'test_tool_with_logging'])).toMatchObject({ code: 0, err: messages });
  });

  it('answers elicitation requests at a terminal', async () => {
    const answers = ['', 'Ada', 'y'];
    expect(await mcp('tool', ['-n', 'test_input_required_result_elicitation'], { answers })).toEqual({
      code: 0,
      out: 'Hello, Ada!\n',
      err: [
        `${new URL(address()).host} requests input: What is your name?`,
        '  name (text): ',
        '    required',
        '  name (text): Ada',
        `Send this to ${new URL(address()).host}? [y/N] y`,
        '',
      ].join('\n'),
    });
  });

  it('sends no input without a terminal or confirmation', async () => {
    const args = ['-n', 'test_elicitation', '-p', 'message=Who?'];
    expect(await mcp('tool', args)).toMatchObject({
      out: 'action=decline, content={}\n',
      err: expect.stringContaining('Declined: no terminal for a prompt.\n'),
    });
    expect(await mcp('tool', args, { answers: ['Ada', 'n'] })).toMatchObject({ out: 'action=decline, content={}\n' });
    expect(await mcp('tool', args, { answers: ['Ada'] })).toMatchObject({ out: 'action=cancel, content={}\n' });
  });

  it('fills in forms with all kinds of fields', async () => {
    expect(
      await mcp('tool', ['-n', 'test_elicitation_sep1034_defaults'], { answers: ['', 'x', '31', '', '2', 'no', 'y'] }),
    ).toMatchObject({
      out: 'action=accept, content={"name":"John Doe","age":31,"score":95.5,"status":"inactive","verified":false}\n',
      err: expect.stringContaining('    expected a whole number\n'),
    });
    expect(
      await mcp('tool', ['-n', 'test_elicitation_sep1330_enums'], {
        answers: ['option2', '3', 'Option One', '1,2,3,4', '1, option3', '', 'y'],
      }),
    ).toMatchObject({
      out: 'action=accept, content={"untitledSingle":"option2","titledSingle":"value3","legacyEnum":"opt1","untitledMulti":["option1","option3"]}\n',
      err: expect.stringContaining(' 2) Second Choice\n'),
    });
  });

  it('reads resources', async () => {
    expect(await mcp('resource', ['--resource-uri', 'test://static-text'])).toEqual({
      code: 0,
      out: 'This is the content of the static text resource.\n',
      err: '',
    });
    const { out } = await mcp('resource', ['--resource-uri', 'test://static-binary', '--output', 'json']);
    expect(JSON.parse(out)).toMatchObject({ contents: [{ mimeType: 'image/png', blob: expect.any(String) }] });
  });

  it('gets prompts', async () => {
    expect(await mcp('prompt', ['-n', 'test_prompt_with_arguments', '-a', 'arg1=1', '-a', 'arg2=b=c'])).toEqual({
      code: 0,
      out: "user:\nPrompt with arguments: arg1='1', arg2='b=c'\nassistant:\nUnderstood.\n",
      err: '',
    });
  });

  it('times out when idle, not while it sends messages', async () => {
    expect(await mcp('tool', ['-n', 'slow', '-p', 'ms=60000', '--timeout', '0.2'])).toEqual({
      code: 1,
      out: '',
      err: `sluice: no response from ${address()} for 0.2 s (--timeout)\n`,
    });
  });
});

it('the idle timeout also applies to an incomplete first response', async () => {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders();
  });
  const url = `http://127.0.0.1:${await listen(server, 0)}/mcp`;
  try {
    expect(await sluice(['mcp', 'tool', '--uri', url, '-n', 'x', '--timeout', '0.2'])).toMatchObject({
      code: 1,
      err: `sluice: no response from ${url} for 0.2 s (--timeout)\n`,
    });
  } finally {
    server.close();
    server.closeAllConnections();
  }
});

describe('without --uri', () => {
  const mcp = (...args: string[]) => sluice(['mcp', ...args, '--mcp-url', new URL(gateway.url()).origin]);

  it('the namespace default is used, with the name as an argument', async () => {
    await gateway.forward('main', modern.url, 'default');
    expect(await mcp('tool', 'weather_report', '-p', 'city=Rome')).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^Sunny in Rome\n/),
    });
    expect(await mcp('resource', 'test://static-text')).toMatchObject({
      out: 'This is the content of the static text resource.\n',
    });
    expect((await mcp('prompt', 'test_prompt_with_arguments', '-a', 'arg1=1', '-a', 'arg2=2')).out).toMatch(/^user:\n/);
    expect((await mcp('tools', 'ls', '-o', 'name')).out).toMatch(/^weather_report$/m);
  });

  it("the service's own message is printed", async () => {
    expect(await mcp('tool', 'nope')).toEqual({
      code: 1,
      out: '',
      err: 'sluice: error -32602: tool not found: nope\n',
    });
    expect(await mcp('tool', 'echo', '-N', 'nowhere')).toEqual({
      code: 1,
      out: '',
      err: 'sluice: error -32600: namespace not found: nowhere\n',
    });
    const management = `http://${gateway.management()}`;
    expect((await sluice(['mcp', 'tool', 'echo', '--mcp-url', management])).err).toBe(
      `sluice: ${management}/default/mcp is the management API; the MCP listener is on another port (8081 by default)\n`,
    );
  });
});

it('sessions of legacy servers are ended', async () => {
  const server = await startDualEra({ eras: 'legacy' });
  try {
    expect(await sluice(['mcp', 'tool', '--uri', server.url, '-n', 'session_counter'])).toMatchObject({ out: '1\n' });
    expect(await sluice(['mcp', 'tool', '--uri', server.url, '-n', 'nope'])).toMatchObject({ code: 1 });
    await expect.poll(server.sessions).toBe(0);
  } finally {
    await server.close();
  }
});

it.each([
  ['directly', () => everything.url],
  ['through the gateway', () => gateway.url('everything')],
])('the reference server is called %s', async (_how, address) => {
  const uri = ['--uri', address()];
  expect(await sluice(['mcp', 'tool', ...uri, '-n', 'get-sum', '-p', 'a=2', '-p', 'b=3'])).toMatchObject({
    code: 0,
    out: 'The sum of 2 and 3 is 5.\n',
  });
  const url = 'https://example.com/sign-in';
  const visit = ['mcp', 'tool', ...uri, '-n', 'trigger-url-elicitation', '--params', JSON.stringify({ url })];
  const { code, out, err } = await sluice(visit, { answers: ['y'] });
  expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining('User completed the URL elicitation flow.') });
  expect(err).toContain(`  ${url}\nOpen it in your browser. Done? [y/N] y\n`);
});

describe('a server with scripted responses', () => {
  let server: RawUpstream;
  beforeEach(async () => {
    server = await startRawUpstream();
  });
  afterEach(() => server.close());

  const END = '"ttlMs":0,"cacheScope":"private","resultType":"complete"}';
  const tool = (args: readonly string[], script?: Script) =>
    sluice(['mcp', 'tool', '--uri', server.url, '-n', 't', ...args], script);
  const startServer = (properties: string) => {
    server.scripts['tools/list'] =
      `{"tools":[{"name":"t","inputSchema":{"type":"object","properties":${properties}}}],${END}`;
    server.scripts['tools/call'] = '{"content":[],"resultType":"complete"}';
  };
  const called = () =>
    /"arguments":(\{.*?\})[,}]/.exec(server.seen.findLast(({ method }) => method === 'tools/call')?.body ?? '')?.[1];

  it('converts arguments according to its schema, with the exact text of numbers', async () => {
    startServer('{"id":{"type":"integer"},"text":{"type":"string"},"list":{"type":"array"}}');
    await writeFile(join(home, 'list.json'), '[1.10]');
    const args = ['-p', 'id=9223372036854775807', '-p', 'text=12', '-p', 'list=@list.json', '-p', 'other=true'];
    expect(await tool(args)).toMatchObject({ code: 0, err: '' });
    expect(called()).toBe('{"id":9223372036854775807,"text":"12","list":[1.10],"other":"true"}');
    await tool(['--params', '{"id":1.0,"x":[2e400]}', '-p', 'id=7']);
    expect(called()).toBe('{"id":7,"x":[2e400]}');
  });

  it('is not called with invalid arguments', async () => {
    startServer('{"id":{"type":"integer"}}');
    const expectRejected = async (args: readonly string[]) => (await tool(args)).err;
    expect(await expectRejected(['-p', 'id=x'])).toMatch(
      /^sluice: --param id: the tool does not take a string here: invalid JSON \(/,
    );
    expect(await expectRejected(['-p', 'id'])).toBe('sluice: --param "id": expected NAME=VALUE\n');
    expect(await expectRejected(['-p', 'id=1', '-p', 'id=2'])).toMatch(/^sluice: --param id: given twice/);
    expect(await expectRejected(['--params', '[]'])).toBe('sluice: --params: expected a JSON object\n');
    expect(await expectRejected(['-p', 'id=@nowhere'])).toMatch(/^sluice: --param id: .*nowhere/);
    expect(server.count('tools/call')).toBe(0);
  });

  it('cannot reach the terminal with control characters', async () => {
    const controlCharacters = '\\u001b]0;owned\\u0007\\r\\n\\u009b2J\\u202egnp.exe';
    server.scripts['tools/list'] =
      `{"tools":[{"name":"t","description":"${controlCharacters}","inputSchema":{"type":"object"}}],${END}`;
    server.scripts['tools/call'] = {
      kind: 'result',
      before: [
        `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"${controlCharacters}","data":"${controlCharacters}"}}`,
      ],
      text: `{"content":[{"type":"text","text":"${controlCharacters}"},{"type":"resource_link","uri":"${controlCharacters}","name":"${controlCharacters}"}],"structuredContent":{"${controlCharacters}":"${controlCharacters}"},"resultType":"complete"}`,
    };
    server.scripts['prompts/get'] = { kind: 'error', text: `{"code":-32602,"message":"${controlCharacters}"}` };
    const uri = ['--uri', server.url];
    const outcomes = [
      await tool([]),
      await tool(['--output', 'json']),
      await sluice(['mcp', 'tool', 'list', ...uri]),
      await sluice(['mcp', 'prompt', ...uri, '-n', 'p']),
    ];
    for (const { out, err } of outcomes) {
      expect(out + err).toContain('owned');
      // biome-ignore lint/suspicious/noControlCharactersInRegex: the expression searches for control characters
      expect(out + err).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e]/);
    }
    expect(JSON.parse(outcomes[1]?.out ?? '')).toHaveProperty('content.0.text', JSON.parse(`"${controlCharacters}"`));
  });

  it('does not validate patterns, which could take forever', async () => {
    startServer('{}');
    const schema = '{"type":"object","properties":{"a":{"type":"string","pattern":"^b$","maxLength":3}}}';
    server.scripts['tools/list'] =
      `{"tools":[{"name":"t","inputSchema":{"type":"object"},"outputSchema":${schema}}],${END}`;
    server.scripts['tools/call'] = ({ params }) =>
      params.inputResponses === undefined
        ? `{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"?","requestedSchema":${schema}}}}}`
        : '{"content":[],"structuredContent":{"a":"x"},"resultType":"complete"}';
    const { code, err } = await tool([], { answers: ['long', 'x', 'y'] });
    expect({ code, err }).toEqual({ code: 0, err: expect.stringContaining('must NOT have more than 3 characters') });
    expect(server.seen.at(-1)?.body).toContain('"content":{"a":"x"}');
  });

  it('does not open a URL that imitates another one', async () => {
    startServer('{}');
    const url = 'https://accounts.google.com@evil.example/';
    const message = `Please${' '.repeat(5000)}sign in`;
    const params = JSON.stringify({ mode: 'url', message, url, elicitationId: '1' });
    server.scripts['tools/call'] =
      `{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":${params}}}}`;
    const requested = await tool([], { answers: [] });
    expect(requested.err).toContain(
      `asks you to open a URL: Please sign in\n  ${url}\nDeclined: not a plain http or https URL.`,
    );
    const data = JSON.stringify({
      elicitations: [JSON.parse(params), { ...JSON.parse(params), url: 'https://ex\u0430mple.com/' }],
    });
    server.scripts['tools/call'] = { kind: 'error', text: `{"code":-32042,"message":"first","data":${data}}` };
    expect((await tool([])).err).toBe(
      [
        'sluice: error -32042: first: open this URL first, then run the command again',
        `  not a plain http or https URL: ${url} (Please sign in)`,
        '  https://xn--exmple-4nf.com/ (Please sign in)',
        '',
      ].join('\n'),
    );
  });

  it.each([
    ['json', 'response'],
    ['stream', 'event'],
  ] as const)('cannot exhaust memory with one message (%s)', async (form, what) => {
    const large = 'x'.repeat(65 * 2 ** 20);
    const list = `{"tools":[{"name":"t","description":"${large}","inputSchema":{"type":"object"}}],${END}`;
    const flooding = await startRawUpstream({ form, scripts: { 'tools/list': list } });
    const { origin } = new URL(flooding.url);
    const outcome = await sluice(['mcp', 'tool', 'list', '--uri', flooding.url]);
    await flooding.close();
    expect(outcome).toEqual({ code: 1, out: '', err: `sluice: ${what} from ${origin} is larger than 64 MiB\n` });
  });

  it('reads all pages of lists', async () => {
    server.scripts['tools/list'] = ({ params }) => {
      const page = Number(params.cursor ?? 0);
      const next = page < 99 ? `"nextCursor":"${page + 1}",` : '';
      return `{"tools":[{"name":"t${page}","inputSchema":{"type":"object"}}],${next}${END}`;
    };
    const { out } = await sluice(['mcp', 'tool', 'list', '--uri', server.url, '--output', 'json']);
    expect(JSON.parse(out)).toHaveLength(100);
  });

  it('receives the given headers and token, never stored credentials or those of the environment', async () => {
    startServer('{}');
    const store = { env: { HOME: join(home, 'with-credentials') } };
    const { host } = new URL(server.url);
    await sluice(['auth', 'login', '--host', `http://${host}`, '--api-token', 'st0red'], store);
    await sluice(['mcp', 'tool', '--uri', server.url, '-n', 't', '--host', `http://${host}`], store);
    expect(server.seen.some(({ headers }) => headers.authorization !== undefined)).toBe(false);
    await tool([], { env: { SLUICE_TOKEN: 'of-env' } });
    expect(server.seen.some(({ headers }) => headers.authorization !== undefined)).toBe(false);
    await tool(['--token', 'given', '--header', 'x-team=a=b']);
    expect(server.seen.at(-1)?.headers).toMatchObject({ authorization: 'Bearer given', 'x-team': 'a=b' });
    await tool(['--token', 'given', '--header', 'Authorization=Basic abc']);
    expect(server.seen.at(-1)?.headers).toMatchObject({ authorization: 'Basic abc' });
    const { err } = await tool(['--header', 'x=s3cret\nvalue']);
    expect(err).toBe('sluice: invalid HTTP header "x"\n');
  });

  it.each([
    [401, 'requires authentication (401): use --token'],
    [403, 'denied access (403)'],
    [404, 'was not found (404): check the URL'],
  ])('is reported when it responds %i', async (status, words) => {
    server.fault = { kind: 'http', status, type: 'text/plain', body: 'no' };
    expect(await tool([])).toEqual({ code: 1, out: '', err: `sluice: ${server.url} ${words}\n` });
  });

  it.each(['modern', 'legacy'] as const)('of the %s era gets a cancellation at Ctrl-C', async (era) => {
    startServer('{}');
    server.eras.delete(era === 'modern' ? 'legacy' : 'modern');
    const terminal = scriptedTerminal({ env: { HOME: home } });
    server.scripts['tools/call'] = () => {
      terminal.interrupt();
      return { kind: 'silence' };
    };
    expect(await run(['mcp', 'tool', '--uri', server.url, '-n', 't'], terminal)).toBe(130);
    expect(terminal.out() + terminal.err()).toBe('');
    if (era === 'legacy') {
      await expect.poll(() => server.count('notifications/cancelled')).toBe(1);
      await expect.poll(server.sessions).toBe(0);
    } else {
      const call = server.seen.find(({ method }) => method === 'tools/call');
      await expect.poll(() => call?.isDisconnected).toBe(true);
    }
  });

  it('receives the responses to two concurrent requests in sequence', async () => {
    startServer('{}');
    server.eras.delete('modern');
    const accepted = () => server.seen.filter(({ body }) => body.includes('"action":"accept"'));
    server.scripts['tools/call'] = async () => {
      await expect.poll(server.streams).toBe(1);
      for (const id of [101, 102]) {
        const params = `{"message":"Question ${id}","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}}`;
        server.push(`{"jsonrpc":"2.0","id":${id},"method":"elicitation/create","params":${params}}`);
      }
      await expect.poll(accepted).toHaveLength(2);
      return '{"content":[]}';
    };
    const { code, err } = await tool([], { answers: ['one', 'y', 'two', 'y'] });
    expect(code).toBe(0);
    expect(err.match(/Question \d+|: (?:one|two)|y$/gm)).toEqual([
      'Question 101',
      ': one',
      'y',
      'Question 102',
      ': two',
      'y',
    ]);
    expect(accepted().map(({ body }) => JSON.parse(body))).toMatchObject([
      { id: 101, result: { content: { a: 'one' } } },
      { id: 102, result: { content: { a: 'two' } } },
    ]);
  });

  it('may fail during a call', async () => {
    startServer('{}');
    server.scripts['tools/call'] = { kind: 'cut' };
    const { code, err } = await tool([]);
    expect({ code, err }).toEqual({ code: 1, err: expect.stringContaining(server.url) });
    await server.down();
    expect(await tool([])).toMatchObject({
      code: 1,
      err: `sluice: connection refused by ${server.url}: check that the service is running\n`,
    });
  });
});

it('binary content is saved into files, which are never overwritten', async () => {
  const save = ['mcp', 'tool', '--uri', modern.url, '-n', 'all_content', '--save', 'saved'];
  const { out } = await sluice(save);
  expect(out).toContain(`[image, image/png, 70 bytes, saved as ${join(home, 'saved/content-1.png')}]`);
  expect(out).toContain('content-2.wav');
  expect((await readFile(join(home, 'saved/content-3.bin'))).toString('base64')).toBe('AAECAw==');
  expect((await sluice(save)).out).toContain('content-2.png');
  expect(await sluice([...save, '--output', 'json'])).toMatchObject({ code: 1, out: '' });
});

describe('an address', () => {
  it.each([
    [
      ['--uri', 'localhost:8081'],
      '--uri "localhost:8081": expected an http:// or https:// URL such as http://localhost:8081/default/mcp',
    ],
    [['--uri', 'http://a:b@c/mcp'], '--uri: must not contain a user name or password; use --header or --token'],
    [['--uri', 'http://c/mcp', '--timeout', '0'], '--timeout "0": expected a number of seconds up to 2147483'],
    [['--uri', 'http://c/mcp', '--header', 'x'], '--header: expected NAME=VALUE'],
  ])('cannot be %j', async (args, problem) => {
    expect(await sluice(['mcp', 'tool', 'list', ...args])).toEqual({ code: 1, out: '', err: `sluice: ${problem}\n` });
  });

  it('may be that of a namespace at an MCP listener, which the environment may name', async () => {
    const list = ['mcp', 'tool', 'list', '-N', 'finance'];
    const { err } = await sluice([...list, '--mcp-url', 'http://127.0.0.2:2/gateway']);
    expect(err).toContain('refused by http://127.0.0.2:2/gateway/finance/mcp:');
    const env = { SLUICE_MCP_URL: 'http://127.0.0.3:2/finance/mcp' };
    expect((await sluice(list, { env })).err).toContain('refused by http://127.0.0.3:2/finance/mcp:');
    expect((await sluice(['mcp', 'tool', 'list', '-N', 'hr'], { env })).err).toMatch(/^sluice: SLUICE_MCP_URL is the/);
  });

  it('may be that of a namespace', async () => {
    // Nothing listens there, or an unrelated service: only the request matters.
    const { err } = await sluice(['mcp', 'tool', 'list', '-N', 'nobody-s', '--host', 'http://127.0.0.2:1']);
    expect(err).toMatch(/^sluice: .*http:\/\/127\.0\.0\.2:2\/nobody-s\/mcp/);
  });
});

describe('the namespace of a configured program', () => {
  const configure = (namespace: string) =>
    sluice(['configure', 'cursor', '--dry-run', '-N', namespace, '--host', `http://${gateway.management()}`]);

  it('is looked up in the service', async () => {
    expect(await configure('modern')).toMatchObject({ code: 0, err: '' });
    expect(await configure('finance')).toMatchObject({
      code: 0,
      out: expect.stringContaining('/finance/mcp'),
      err: `warning: http://${gateway.management()} has no namespace "finance" yet: run "sluice namespaces create finance"\n`,
    });
  });
});

it('as a process, uses standard output, standard error and the exit code', async () => {
  const command = fileURLToPath(new URL('../packages/cli/bin/sluice.mjs', import.meta.url));
  const env = { ...ENVIRONMENT, HOME: home };
  const start = (...args: string[]) =>
    promisify(execFile)(process.execPath, [command, ...args], { env, cwd: home }).then(
      ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
      ({ code, stdout, stderr }) => ({ code, stdout, stderr }),
    );
  const url = gateway.url('legacy');
  const host = `http://${gateway.management()}`;
  expect(
    await Promise.all([
      start('mcp', 'tool', '--uri', url, '--name', 'test_tool_with_logging'),
      start('mcp', 'tool', '--uri', url, '--name', 'test_error_handling'),
      start('configure', 'vscode', '--yes', '--host', host, '--mcp-url', new URL(url).origin, '-N', 'legacy'),
    ]),
  ).toEqual([
    {
      code: 0,
      stdout: 'Tool with logging executed successfully\n',
      stderr: '[info] Tool execution started\n[info] Tool processing data\n[info] Tool execution completed\n',
    },
    { code: 1, stdout: 'This tool intentionally returns an error for testing\n', stderr: '' },
    { code: 0, stdout: expect.stringContaining('Updated '), stderr: '' },
  ]);
  expect(JSON.parse(await readFile(join(home, '.config/Code/User/mcp.json'), 'utf8'))).toEqual({
    servers: { 'sluice-legacy': { type: 'http', url } },
  });
});
