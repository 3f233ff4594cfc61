import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { createFileFolder, type FileServer, startFileServer } from '../fixtures/file-server.ts';
import { startGateway } from '../fixtures/gateway.ts';
import { findGo } from '../fixtures/programs.ts';
import { campaignSeed } from '../fixtures/seed.ts';
import { hiddenSpelling } from '../fixtures/uri-spellings.ts';
import type { Campaign } from './campaign.ts';
import { runUris, type UriSystem } from './uris-run.ts';

/** Spellings of a round. */
const SPELLINGS = 1_000;

/** A kind of server; `start` resolves with undefined where its language is not installed. */
interface ServerKind {
  readonly name: string;
  /** How it reads a uri. */
  readonly reading: string;
  start(folder: string): Promise<FileServer | undefined>;
}

const sourceOf = (name: string) => fileURLToPath(new URL(`uris/${name}`, import.meta.url));

const SERVERS: readonly ServerKind[] = [
  { name: 'TypeScript', reading: '`new URL`, `decodeURIComponent`', start: startFileServer },
  {
    name: 'Python',
    reading: '`urlparse`, `unquote`, `normpath`',
    start: (folder) => startProgram('python3', [sourceOf('server.py'), folder]),
  },
  { name: 'Go', reading: '`url.Parse`, `path.Clean`', start: startGoServer },
  {
    name: 'Java',
    reading: '`URI.normalize`, `getPath`',
    start: (folder) => startProgram('java', [sourceOf('Server.java'), folder]),
  },
];

/** A round has 1,000 spellings of a hidden file, which are read from every server in every way to hide it. */
export const urisCampaign: Campaign = {
  name: 'uris',
  title: 'Spellings of a hidden uri',
  async run(print, rounds = 10) {
    const seed = campaignSeed();
    const spellings = fc.sample(hiddenSpelling, { seed, numRuns: rounds * SPELLINGS });
    const folder = await createFileFolder();
    const gateway = await startGateway();
    const system: UriSystem = {
      api: (method, path, body) => gateway.api(method, `/api/v1${path}`, body),
      url: gateway.url,
    };
    const rows: string[] = [];
    const failures: string[] = [];
    try {
      for (const { name, reading, start } of SERVERS) {
        const server = await start(folder.path);
        if (!server) {
          print(`${name}: skipped, not installed`);
          rows.push(`| ${name} | skipped: not installed | | | |`);
          continue;
        }
        try {
          const run = await runUris(system, name.toLowerCase(), server.url, spellings);
          failures.push(...run.failures);
          print(`${name}: serves ${run.served} of ${spellings.length} spellings; ${run.failures.length} failures`);
          rows.push(`| ${name} | ${reading} | ${run.served} | ${run.visible} | **${run.failures.length}** |`);
        } finally {
          await server.close();
        }
      }
    } finally {
      await gateway.close();
      await folder.close();
    }
    for (const failure of failures) print(failure);
    const head = [
      `${spellings.length} spellings of the uri of a file (seed ${seed}), which is hidden by an allow rule, by two deny rules, and`,
      'disabled.',
      '',
      '| server | reads a uri with | spellings that it serves unless hidden | visible files read as listed | **hidden file read, or visible one not** |',
      '|---|---|---|---|---|',
    ];
    const details = failures.map((failure) => `\n${failure}\n`).join('');
    return { passed: failures.length === 0, report: `${[...head, ...rows].join('\n')}\n${details}` };
  },
};

/** Compiles the server, since `go run` does not pass signals on. */
async function startGoServer(folder: string): Promise<FileServer | undefined> {
  const go = findGo();
  if (go === undefined) return undefined;
  const output = await mkdtemp(join(tmpdir(), 'sluice-uris-'));
  const program = join(output, 'server');
  const build = spawn(go, ['build', '-o', program, sourceOf('server.go')], { stdio: ['ignore', 'ignore', 'inherit'] });
  const [code] = await once(build, 'exit');
  const server = code === 0 ? await startProgram(program, [folder]) : undefined;
  if (!server) throw new Error('the server in Go could not be built');
  return {
    url: server.url,
    close: async () => {
      await server.close();
      await rm(output, { recursive: true });
    },
  };
}

/** Starts a server that prints its port; undefined if the program is not installed. */
async function startProgram(program: string, args: readonly string[]): Promise<FileServer | undefined> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const isStarted = await once(child, 'spawn').then(
    () => true,
    () => false,
  );
  if (!isStarted) return undefined;
  const port = await firstLine(child);
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    close: async () => {
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    },
  };
}

async function firstLine({ stdout }: ChildProcess): Promise<string> {
  if (!stdout) throw new Error('the server has no output');
  for await (const line of createInterface({ input: stdout })) return line;
  throw new Error('the server ended without printing its port');
}
