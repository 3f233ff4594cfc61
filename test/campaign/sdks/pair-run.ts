import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../../fixtures/free-port.ts';
import type { Gateway } from '../../fixtures/gateway.ts';
import type { Command } from './programs.ts';
import { startTap } from './tap.ts';
import { parseTranscript, type Transcript } from './transcript.ts';

const START_MS = 120_000;
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

/** Runs the client with Sluice, which gets a namespace with the server as its only forward for this time. */
export async function runThroughSluice(client: Command, server: Command, gateway: Gateway): Promise<PairRun> {
  await using running = await startServer(server);
  await using upstream = await startTap(running.url);
  const name = `sdk-${new URL(upstream.url).port}`;
  await gateway.forward(name, upstream.url, name);
  try {
    const problem = await discovered(name, gateway);
    if (problem !== undefined) {
      return { transcript: new Map([['discovery', problem]]), bytes: `## Sluice and server\n${upstream.recorded()}` };
    }
    await using tap = await startTap(gateway.url(name));
    const output = await runClient(client, tap.url, running.restart);
    const bytes = `## client and Sluice\n${tap.recorded()}\n## Sluice and server\n${upstream.recorded()}`;
    return { transcript: parseTranscript(output), bytes };
  } finally {
    await gateway.api('DELETE', `/api/v1/forwards/${name}`);
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

/** Waits until the forward is available; returns its error if it does not become so. */
async function discovered(name: string, gateway: Gateway): Promise<unknown> {
  const deadline = performance.now() + DISCOVERY_MS;
  for (;;) {
    const forwards: unknown[] = Object.values(Object(await gateway.forwards()));
    const forward = Object(forwards.find((other) => Object(other).name === name));
    if (forward.available === true) return undefined;
    if (performance.now() > deadline) return forward.statusMessage ?? 'not available';
    await delay(50);
  }
}
