import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../../fixtures/free-port.ts';
import { startGateway } from '../../fixtures/gateway.ts';
import type { Command } from './programs.ts';
import { startTap } from './tap.ts';
import { parseTranscript, type Transcript } from './transcript.ts';

const START_MS = 60_000;
const DISCOVERY_MS = 20_000;
const CLIENT_MS = 240_000;

/** A client's run. */
export interface PairRun {
  readonly transcript: Transcript;
  /** The bytes between client and server; through Sluice also those between Sluice and the server. */
  readonly bytes: string;
}

/** Runs the client with the server, directly. */
export async function runDirectly(client: Command, server: Command): Promise<PairRun> {
  await using running = await startServer(server);
  await using tap = await startTap(running.url);
  const output = await runClient(client, tap.url, running.restart);
  return { transcript: parseTranscript(output), bytes: `## client and server\n${tap.recorded()}` };
}

/** Runs the client with Sluice, which has the server as its only forward. */
export async function runThroughSluice(client: Command, server: Command): Promise<PairRun> {
  await using running = await startServer(server);
  await using upstream = await startTap(running.url);
  const gateway = await startGateway();
  try {
    await gateway.forward('sdk', upstream.url);
    const problem = await discovered(() => gateway.forwards());
    if (problem !== undefined) {
      return { transcript: new Map([['discovery', problem]]), bytes: `## Sluice and server\n${upstream.recorded()}` };
    }
    await using tap = await startTap(gateway.url());
    const output = await runClient(client, tap.url, running.restart);
    const bytes = `## client and Sluice\n${tap.recorded()}\n## Sluice and server\n${upstream.recorded()}`;
    return { transcript: parseTranscript(output), bytes };
  } finally {
    await gateway.close();
  }
}

/** A server in a separate process. */
interface RunningServer extends AsyncDisposable {
  readonly url: string;
  /** Kills it and starts it again. */
  readonly restart: () => Promise<void>;
}

async function startServer({ file, args, env }: Command): Promise<RunningServer> {
  const port = await freePort();
  const start = async () => {
    const child = spawn(file, args, { env: { ...env, PORT: String(port) }, stdio: ['ignore', 'pipe', 'pipe'] });
    const output: string[] = [];
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => output.push(String(chunk)));
    const deadline = performance.now() + START_MS;
    while (!(await accepts(port))) {
      if (child.exitCode !== null || performance.now() > deadline) {
        await end(child);
        throw new Error(`${file} ${args.join(' ')} does not listen:\n${output.join('')}`);
      }
      await delay(50);
    }
    return child;
  };
  let child = await start();
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    restart: async () => {
      await end(child);
      child = await start();
    },
    [Symbol.asyncDispose]: () => end(child),
  };
}

/** Runs a client until it ends and returns its output. `restart` restarts the server when the client has reached that step. */
async function runClient({ file, args, env }: Command, url: string, restart: () => Promise<void>): Promise<string> {
  const child = spawn(file, [...args, url], { env, stdio: ['pipe', 'pipe', 'pipe'] });
  const exited = once(child, 'close');
  const timer = setTimeout(() => child.kill('SIGKILL'), CLIENT_MS);
  const lines: string[] = [];
  const errors: string[] = [];
  child.stderr.on('data', (chunk) => errors.push(String(chunk)));
  child.stdin.on('error', () => undefined);
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line);
    if (line !== '{"step":"restart"}') continue;
    await restart();
    child.stdin.end('\n');
  }
  await exited;
  clearTimeout(timer);
  if (child.exitCode !== 0)
    lines.push(JSON.stringify({ step: 'exit', error: errors.join('').trim().split('\n').at(-1) }));
  return lines.join('\n');
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

async function accepts(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  const connected = once(socket, 'connect').then(
    () => true,
    () => false,
  );
  try {
    return await connected;
  } finally {
    socket.destroy();
  }
}

/** Waits until the forward is available; returns its state if it does not become so. */
async function discovered(forwards: () => Promise<unknown>): Promise<unknown> {
  const deadline = performance.now() + DISCOVERY_MS;
  for (;;) {
    const [forward] = Object.values(Object(await forwards()));
    if (Object(forward).available === true) return undefined;
    if (performance.now() > deadline) return forward ?? 'no forward';
    await delay(50);
  }
}
