import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { ENVIRONMENT } from '../../fixtures/environment.ts';
import { freePort } from '../../fixtures/free-port.ts';
import { pythonEnvironment } from '../python-environment.ts';

const SOURCES = fileURLToPath(new URL('./', import.meta.url));
/** Virtual environments; kept between runs. */
const CACHE = fileURLToPath(new URL('../../../node_modules/.cache/sluice-models/', import.meta.url));
const START_MS = 120_000;
const POLL_MS = 200;

/** A model server that runs. */
export interface ModelServer {
  /** `host:port`. */
  readonly address: string;
  close(): Promise<void>;
}

/** A model server of others. */
export interface ModelBackend {
  readonly name: string;
  /** Models for all steps. */
  readonly models: readonly string[];
  /** A model for evaluators that refuses a member of their requests, if there is one. */
  readonly refusing?: string;
  readonly version: () => Promise<string>;
  /** Installs and starts it; returns what is missing on this machine instead. */
  readonly start: () => Promise<ModelServer | string>;
}

/** The model servers of the campaign. */
export const MODEL_BACKENDS: readonly ModelBackend[] = [
  {
    name: 'LiteLLM',
    models: ['mock', 'mock-reasoning', 'mock-failing'],
    refusing: 'mock-reasoning',
    version: async () => /^litellm==(.+)$/m.exec(await readFile(join(SOURCES, 'litellm.txt'), 'utf8'))?.[1] ?? '',
    start: startLiteLlm,
  },
];

async function startLiteLlm(): Promise<ModelServer | string> {
  const environment = await pythonEnvironment(join(CACHE, 'litellm'), join(SOURCES, 'litellm.txt'));
  if ('missing' in environment) return environment.missing;
  const port = await freePort();
  const args = ['--config', join(SOURCES, 'litellm.yaml'), '--host', '127.0.0.1', '--port', String(port)];
  const env = {
    ...ENVIRONMENT,
    LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY: 'true',
    // Prices would be read from the network.
    LITELLM_LOCAL_MODEL_COST_MAP: 'True',
    PYTHONUTF8: '1',
  };
  return startServer(join(environment.bin, 'litellm'), args, env, port, '/health/liveliness');
}

/** Starts a program and waits until it answers. */
async function startServer(
  file: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  port: number,
  path: string,
): Promise<ModelServer> {
  const child = spawn(file, args, { env, stdio: ['ignore', 'ignore', 'pipe'] });
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => {
    errors = `${errors}${chunk}`.slice(-4_000);
  });
  const deadline = performance.now() + START_MS;
  const isUp = () =>
    fetch(`http://127.0.0.1:${port}${path}`).then(
      ({ ok }) => ok,
      () => false,
    );
  while (!(await isUp())) {
    if (child.exitCode !== null || performance.now() > deadline) {
      await stop(child);
      throw new Error(`${file} does not answer: ${errors}`);
    }
    await delay(POLL_MS);
  }
  return { address: `127.0.0.1:${port}`, close: () => stop(child) };
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}
