import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Evaluator } from '@sluice/contract';
import type { TestContext } from 'vitest';
import { EVALUATOR_REVISIONS } from '../policy/evaluator-revisions.ts';
import { PrefixCompiler } from '../policy/fixtures/prefix-compiler.ts';
import type { LlmConnection } from '../policy/llm/client.ts';
import { FileLog } from '../registry/store/file-log.ts';
import { diskFiles } from '../registry/store/files.ts';
import { RecordedLog } from '../registry/store/fixtures/recorded-log.ts';
import { LogRevisionStore } from '../registry/store/revision-store.ts';
import { type Answered, type Api, type EvaluatorSettings, startSharedApi } from './api.fixture.ts';

/** The secret of a connection, which must never be exposed. */
export const SECRETS = ['sk-S3CRET', 's3cret-model', 's3cret-host'] as const;

const [apiKey, model, host] = SECRETS;

/** Connections named `model` and `another`. */
export const CONNECTIONS: readonly LlmConnection[] = ['model', 'another'].map((name) => ({
  name,
  model,
  url: `http://${host}.invalid/v1`,
  apiKey,
}));

/** A management API with loadable evaluators, also across restarts. */
export interface EvaluatorApi {
  /** With stored revisions, and the actions `ok.wasm` and `broken.wasm`. */
  readonly folder: string;
  readonly compiler: PrefixCompiler;
  readonly api: Api;
  /** `PUT /api/v1/evaluators`. */
  put(evaluators: readonly unknown[], more?: object, headers?: Record<string, string>): Promise<Answered>;
  /** `GET /api/v1/evaluators` and paths below. */
  get(path?: string): Promise<Answered>;
  /** Closes it and starts it again on the same folder; `settings` replace the previous ones. */
  restart(settings?: EvaluatorSettings): Promise<void>;
}

/** Starts the API for one test and stops it afterwards. */
export async function startEvaluatorApi(
  context: Pick<TestContext, 'onTestFinished'>,
  settings: EvaluatorSettings = {},
): Promise<EvaluatorApi> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-evaluators-'));
  await writeFile(join(folder, 'ok.wasm'), 'ok');
  await writeFile(join(folder, 'broken.wasm'), 'broken');
  const compiler = new PrefixCompiler();
  let records: FileLog | undefined;
  const start = async (more: EvaluatorSettings) => {
    await records?.close();
    records = await FileLog.open({ folder, files: diskFiles(), log: new RecordedLog() });
    const revisions = new LogRevisionStore(records, EVALUATOR_REVISIONS);
    const evaluators = { connections: CONNECTIONS, baseFolder: folder, compiling: compiler, revisions, ...more };
    return startSharedApi({ evaluators });
  };
  let api = await start(settings);
  context.onTestFinished(async () => {
    await api.close();
    await records?.close();
    await rm(folder, { recursive: true });
  });
  return {
    folder,
    compiler,
    get api() {
      return api;
    },
    put: (evaluators, more = {}, headers = {}) =>
      api.call('PUT', '/api/v1/evaluators', { evaluators, ...more }, headers),
    get: (path = '') => api.call('GET', `/api/v1/evaluators${path}`),
    async restart(more = settings) {
      await api.close();
      api = await start(more);
    },
  };
}

/** The names of the evaluators in a response. */
export function namesIn({ data }: Answered): unknown[] {
  return Array.isArray(data) ? data.map(({ name }: Evaluator) => name) : [];
}

/** The envelope's `warnings`; undefined if it has none. */
export function warningsIn({ text }: Answered): unknown {
  const envelope: unknown = JSON.parse(text);
  return Object(envelope).warnings;
}
