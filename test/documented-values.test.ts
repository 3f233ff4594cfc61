import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import {
  ERROR_STATUS,
  EVENT_TOPICS,
  LOG_CAPACITY,
  LOG_LEVELS,
  MAX_EVENT_NAMES,
  MAX_EVENT_STREAMS,
  MAX_LOG_STREAMS,
  MAX_PAGE_SIZE,
  MAX_TIME_SERIES,
  MAX_TOOL_CALL_STREAMS,
  SERVICE_TYPES,
  STATE_EVENT_CAPACITY,
  TIME_SERIES_GROUPINGS,
  TIME_SERIES_STEP_S,
  TOOL_CALL_ERROR_CATEGORIES,
  TOOL_CALL_EVENT_CAPACITY,
} from '@sluice/contract';
import { describe, expect, it } from 'vitest';
import { loadConfig } from '../packages/server/src/app/config/config.ts';

// Defaults, codes and limits that the pages name are those of the code.

const read = (path: string) => readFileSync(fileURLToPath(new URL(`../${path}`, import.meta.url)), 'utf8');
const page = (name: string) => read(`docs/${name}.md`);
const source = (path: string) => read(`packages/server/src/${path}`);

/** Its default is in the embedded pipeline, which it replaces when the service runs. */
const UPSTREAM = 'SERVICE_INFERENCE_UPSTREAM';

/** Rows of the table of environment variables: name and documented default. */
const VARIABLES = [...page('configuration').matchAll(/^\| `(SERVICE_[A-Z_]+|RUST_LOG)` \| `([^`]+)` \|/gm)]
  .map(([, name = '', value = '']) => [name, value] as const)
  .filter(([name]) => name !== UPSTREAM);

/** Another valid value than the default, which must make a difference: the variable is read. */
const OTHERS: Readonly<Record<string, string>> = {
  SERVICE_AUTH_REGISTRATION: 'forward',
  SERVICE_PERSIST_BACKEND: 'none',
  SERVICE_PERSIST_PATH: '/elsewhere',
  SERVICE_INFERENCE_ALLOW: 'completions',
  RUST_LOG: 'debug',
};

function otherThan(name: string, value: string): string {
  const known = OTHERS[name];
  if (known !== undefined) return known;
  if (value === '0' || value === '1')
    return value === '0' ? '1' : name === 'SERVICE_TASKS_FOR_PLAIN_CLIENTS' ? '0' : '2';
  return value.replace(/\d+$/, (digits) => String(Number(digits) + 1));
}

/** Variables without which another one has no effect. */
const REQUIRED: Readonly<Record<string, NodeJS.ProcessEnv>> = {
  SERVICE_AUTH_REGISTRATION: { SERVICE_AUTH_ISSUER: 'https://login.example.com' },
  SERVICE_PROCESSES: {
    SERVICE_PERSIST_BACKEND: 'postgres',
    SERVICE_POSTGRES_URL: 'postgres://sluice@127.0.0.1/sluice',
    SERVICE_SESSION_KEY: 'a1'.repeat(32),
  },
};

const HOME = '/home/sluice';

/** The environment itself, addresses that the pipeline has too, and the names of the settings that those come from. */
const OMITTED = /^(?:secrets|mcpListen|inferenceListen|inferenceUpstream)$|At$/;

/** The configuration as text, in a folder without files. */
async function configuration(env: NodeJS.ProcessEnv): Promise<string> {
  const invocation = await loadConfig([], { HOME, ...env }, '/');
  return JSON.stringify(invocation, (name, member) => (OMITTED.test(name) ? undefined : member));
}

describe('the default of a variable is the documented one', () => {
  it('for all that have one', () => expect(VARIABLES.length).toBeGreaterThan(30));

  it(UPSTREAM, () => {
    const [, documented] =
      new RegExp(`^\\| \`${UPSTREAM}\` \\| \`([^\`]+)\` \\|`, 'm').exec(page('configuration')) ?? [];
    expect(source('app/config/pipeline/default.yaml')).toContain(`endpoints: ['${documented}']`);
  });

  it.each(VARIABLES)('%s: %s', async (name, documented) => {
    const value = documented.replace('$HOME', HOME);
    const required = REQUIRED[name] ?? {};
    const byDefault = await configuration(required);
    expect(await configuration({ ...required, [name]: value })).toBe(byDefault);
    expect(await configuration({ ...required, [name]: otherThan(name, value) })).not.toBe(byDefault);
  });
});

const number = (text: string) => Number(text.replaceAll(',', ''));
const NUMBERS: Readonly<Record<string, number>> = { five: 5, six: 6, seven: 7 };

/** What a page says, as a pattern with a group for each number, and the numbers of the code. */
const FACTS: readonly (readonly [string, RegExp, readonly number[]])[] = [
  [
    'configuration',
    /\| Tool-call events; other events of the event stream \| (\d+); (\d+) \|/,
    [TOOL_CALL_EVENT_CAPACITY, STATE_EVENT_CAPACITY],
  ],
  [
    'configuration',
    /\| Clients of the event stream, and of the stream of tool calls \| (\d+); (\d+) \|/,
    [MAX_EVENT_STREAMS, MAX_TOOL_CALL_STREAMS],
  ],
  ['configuration', /\| Names of one kind in a registry event \| (\d+) \|/, [MAX_EVENT_NAMES]],
  [
    'configuration',
    /\| Time series \| one hour in steps of (\d+) s, (\d+) groups of each kind/,
    [TIME_SERIES_STEP_S, MAX_TIME_SERIES],
  ],
  ['management-api', /The latest (\d+) events are stored in memory/, [TOOL_CALL_EVENT_CAPACITY]],
  ['management-api', /A client more than (\d+)\nevents behind is disconnected/, [TOOL_CALL_EVENT_CAPACITY]],
  ['management-api', /At most (\d+) clients can connect/, [MAX_TOOL_CALL_STREAMS]],
  ['management-api', /latest ([\d,]+) lines, oldest first/, [LOG_CAPACITY]],
  ['management-api', /At most (\d+) clients can\nfollow/, [MAX_LOG_STREAMS]],
  ['management-api', /At most (\d+) groups of each kind are stored/, [MAX_TIME_SERIES]],
  ['management-api', /\(up to ([\d,]+) in lists with pages\)/, [MAX_PAGE_SIZE]],
  ['telemetry', /The latest ([\d,]+) lines are stored in memory/, [LOG_CAPACITY]],
  ['cli', /The latest ([\d,]+) lines of the log/, [LOG_CAPACITY]],
  ['capability-services', /one of (\w+) \[categories\]/, [TOOL_CALL_ERROR_CATEGORIES.length]],
];

describe('a number of a page is that of the code', () => {
  it.each(FACTS)('%s: %s', (name, pattern, expected) => {
    const [, ...groups] = pattern.exec(page(name)) ?? [];
    const found = groups.filter((group) => group !== undefined).map((group) => NUMBERS[group] ?? number(group));
    expect(found).toEqual(expected);
  });

  it('the time until an idle channel closes', () => {
    const [, documented] = /close after (\d+) s without calls/.exec(page('capability-services')) ?? [];
    expect(source('upstreams/grpc/channels.ts')).toContain(`IDLE_TIMEOUT_MS = ${documented}_000;`);
  });

  it('the series of calls have the same size on every page and in the code', () => {
    const code = source('telemetry/time-series.ts');
    const [, expected] = /At most (\d+ MiB)\./.exec(code) ?? [];
    expect(page('management-api')).toContain(`The series take at most ${expected}.`);
    expect(page('configuration')).toContain(`200 groups of each kind, ${expected} |`);
  });
});

const UNITS: Readonly<Record<string, number>> = { KiB: 1024, MiB: 1024 ** 2, s: 1000, ms: 1 };

/** Limits of the page about security that a variable sets: name and documented default. */
const LIMITS = [...page('security').matchAll(/\| ([\d,]+)(?: (KiB|MiB|s|ms))? \| `(SERVICE_[A-Z_]+)` \|/g)].map(
  ([, value = '', unit = '', name = '']) => [name, number(value) * (UNITS[unit] ?? 1)] as const,
);

describe('a limit of the page about security is the default of its variable', () => {
  it('for many', () => expect(LIMITS.length).toBeGreaterThan(20));

  it.each(LIMITS)('%s: %i', (name, value) => expect(Object.fromEntries(VARIABLES)[name]).toBe(String(value)));
});

it('the first block of README.md can be pasted, in lines or as one', () => {
  const readme = read('README.md');
  const [, block = ''] = /\n## Start\n[\s\S]*?\n\n((?: {4}.*\n)+)/.exec(readme) ?? [];
  const commands = [...block.matchAll(/^ {4}(.*?)(?: +#.*)?$/gm)].map(([, command = '']) => command);
  // test/installation.slow.test.ts runs the last one in a fresh checkout.
  expect(commands).toEqual([
    expect.stringMatching(/^git clone https:\/\/\S+\/sluice\.git$/),
    'cd sluice',
    'npm start -- --local',
  ]);
  expect(readme).toContain(`\`${commands.join(' && ')}\``);
});

/** First cells of the rows of the table after a text. */
function firstCells(name: string, before: string): string[] {
  const text = page(name);
  const from = text.indexOf(before);
  expect(from, before).toBeGreaterThan(-1);
  const [table = ''] = /(?:^\|.*\n)+/m.exec(text.slice(from)) ?? [];
  return table.split('\n').flatMap((row) => /^\| ([^|]+) \|/.exec(row)?.[1] ?? []);
}

describe('codes and names of a page are those of the code', () => {
  it('error categories', () => {
    const listed = firstCells('management-api', '| `errorCategory` |').flatMap(
      (cell) => /^`([A-Z_]+)`$/.exec(cell)?.[1] ?? [],
    );
    expect(listed.sort()).toEqual([...TOOL_CALL_ERROR_CATEGORIES].sort());
  });

  it('status codes of the management API', () => {
    const listed = firstCells('management-api', '## Status codes').flatMap(
      (cell) => cell.match(/\b[1-5]\d\d\b/g) ?? [],
    );
    // Not of an error code: successes, and a head that is too large, which is rejected before routing.
    const expected = [...Object.values(ERROR_STATUS).map(String), '200', '201', '431'];
    expect(listed.sort()).toEqual([...new Set(expected)].sort());
  });

  it.each([
    ['management-api', TIME_SERIES_GROUPINGS],
    ['management-api', EVENT_TOPICS],
    ['management-api', SERVICE_TYPES],
    ['configuration', LOG_LEVELS],
  ])('%s has all of %j', (name, values) => {
    const text = page(name);
    expect(values.filter((value) => !new RegExp(`\\b${value}\\b`).test(text))).toEqual([]);
  });
});
