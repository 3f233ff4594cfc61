import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { ENVIRONMENT } from '../../fixtures/environment.ts';
import { freePort } from '../../fixtures/free-port.ts';
import { pythonEnvironment, runBuild } from '../python-environment.ts';

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
  /** Members of requests without which answers differ from run to run. */
  readonly options: Readonly<Record<string, unknown>>;
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
    options: {},
    refusing: 'mock-reasoning',
    version: () => lockedVersion('litellm'),
    start: startLiteLlm,
  },
  {
    name: 'llama.cpp (llama-cpp-python)',
    models: ['random'],
    options: { temperature: 0 },
    version: () => lockedVersion('llama_cpp_python', 'llama'),
    start: startLlama,
  },
];

async function lockedVersion(module: string, file = module): Promise<string> {
  return new RegExp(`^${module}==(.+)$`, 'm').exec(await readFile(join(SOURCES, `${file}.txt`), 'utf8'))?.[1] ?? '';
}

/** Compiles llama.cpp, which takes minutes the first time, and serves a model of random weights. */
async function startLlama(): Promise<ModelServer | string> {
  const environment = await llamaEnvironment();
  if ('missing' in environment) return environment.missing;
  const python = join(environment.bin, 'python');
  const model = join(CACHE, 'random.gguf');
  await runBuild(python, [join(SOURCES, 'random_model.py'), model], SOURCES);
  const port = await freePort();
  const address = ['--host', '127.0.0.1', '--port', String(port)];
  // Evaluators set no limit: a small context ends what the model says.
  const args = ['-m', 'llama_cpp.server', '--model', model, '--model_alias', 'random', '--n_ctx', '512', ...address];
  return startServer(python, args, { ...ENVIRONMENT, PYTHONUTF8: '1' }, port, '/v1/models');
}

async function llamaEnvironment(): ReturnType<typeof pythonEnvironment> {
  // Without optimization it compiles in a third of the time; the model is tiny.
  const flags = ['C', 'CXX'].map((language) => `-DCMAKE_${language}_FLAGS_RELEASE=-O0`);
  const settings = ['-DGGML_NATIVE=OFF', '-DGGML_OPENMP=OFF', '-DLLAVA_BUILD=OFF', ...flags];
  try {
    return await pythonEnvironment(join(CACHE, 'llama'), join(SOURCES, 'llama.txt'), {
      CMAKE_ARGS: settings.join(' '),
    });
  } catch (error) {
    return { missing: `a compiler for C++ and CMake (${String(error).split('\n', 1)[0]})` };
  }
}

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
