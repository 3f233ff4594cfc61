import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { quickjsComponent } from '../../packages/server/src/policy/sandbox/fixtures/quickjs-component.ts';
import { startTestService, type TestService } from '../../packages/server/testing/service.ts';
import { echoJavascript } from '../fixtures/evaluated/echo-javascript.ts';
import { modernClient } from '../fixtures/raw-client.ts';
import { parseObject } from '../fixtures/raw-upstream/message.ts';
import type { Campaign } from './campaign.ts';
import { MODEL_BACKENDS, type ModelBackend } from './models/backends.ts';
import { comparable, outcomeOf, recordDifferences, repeatable } from './models/comparison.ts';
import { MODEL_STEPS, type ModelStep, modelClients } from './models/steps.ts';

/** Results of one backend. */
interface BackendResult {
  readonly title: string;
  readonly steps: number;
  /** Steps that fail directly as well. */
  readonly failing: number;
  readonly records: number;
  readonly evaluations: number;
  readonly failures: readonly string[];
}

/** A round is every step with every model, directly and through Sluice, and evaluations by the models. */
export const modelsCampaign: Campaign = {
  name: 'models',
  title: 'Model servers and official clients',
  async run(print, rounds = 1) {
    const results: BackendResult[] = [];
    const skipped: string[] = [];
    for (const backend of MODEL_BACKENDS) {
      const result = await runBackend(backend, rounds, print);
      if (typeof result === 'string') skipped.push(`${backend.name}: needs ${result}`);
      else results.push(result);
    }
    if (skipped.length > 0) print(`skipped: ${skipped.join('; ')}`);
    return { passed: results.every(({ failures }) => failures.length === 0), report: report(results, skipped) };
  },
};

async function runBackend(
  backend: ModelBackend,
  rounds: number,
  print: (line: string) => void,
): Promise<BackendResult | string> {
  const server = await backend.start();
  if (typeof server === 'string') return server;
  const folder = await mkdtemp(join(tmpdir(), 'sluice-models-'));
  try {
    const models = [...backend.models];
    await writeFile(join(folder, 'echo.wasm'), await quickjsComponent(echoJavascript, 'small'));
    await writeFile(join(folder, 'service.json'), bootstrap(models, server.address));
    const env = { SERVICE_INFERENCE_UPSTREAM: server.address };
    const service = await startTestService(env, ['--service-config', join(folder, 'service.json')]);
    try {
      const run = new BackendRun(backend, server.address, service, print);
      for (let round = 0; round < rounds; round++) {
        for (const model of models) for (const step of MODEL_STEPS) await run.step(step, model);
        for (const model of models) await run.evaluate(model);
      }
      return { title: `${backend.name} ${await backend.version()}`, ...run.counts, failures: run.failures };
    } finally {
      await service.stop(0);
    }
  } finally {
    await server.close();
    await rm(folder, { recursive: true });
  }
}

/** A bootstrap file with a connection for each model. */
function bootstrap(models: readonly string[], address: string): string {
  const url = `http://${address}/v1`;
  return JSON.stringify({ llm_connections: models.map((model) => ({ name: model, model, url })) });
}

class BackendRun {
  readonly counts = { steps: 0, failing: 0, records: 0, evaluations: 0 };
  readonly failures: string[] = [];
  readonly #backend: ModelBackend;
  readonly #direct: string;
  readonly #service: TestService;
  readonly #print: (line: string) => void;

  constructor(backend: ModelBackend, address: string, service: TestService, print: (line: string) => void) {
    this.#backend = backend;
    this.#direct = `http://${address}`;
    this.#service = service;
    this.#print = print;
  }

  /** Compares a step through Sluice with the same one directly, and what was recorded with what the client assembled. */
  async step({ name, run }: ModelStep, model: string): Promise<void> {
    const title = `${this.#backend.name}, ${model}, ${name}`;
    await this.#service.manage('DELETE', '/interactions');
    const { options } = this.#backend;
    const clients = modelClients(`http://${this.#service.addresses.inference}`);
    const direct = await outcomeOf(() => run(modelClients(this.#direct), model, options));
    const through = await outcomeOf(() => run(clients, model, options));
    this.counts.steps++;
    if (repeatable(direct) !== repeatable(through)) {
      this.#fail(`${title}: directly ${repeatable(direct)}, through Sluice ${repeatable(through)}`);
    }
    if ('error' in through) {
      this.counts.failing++;
      this.#print(`${title}: ${through.error}`);
      return;
    }
    const { data } = await this.#service.manage('GET', '/interactions');
    const [found] = Array.isArray(data) ? data.map(Object) : [];
    const differences = recordDifferences(comparable(found?.response_body), comparable(through.answer));
    this.counts.records++;
    this.#print(`${title}: ${differences.length === 0 ? 'equal' : differences.join(', ')}`);
    if (differences.length > 0) this.#fail(`${title}: the record differs at ${differences.join(', ')}`);
  }

  /** Evaluates two calls with the model: the action gets a result, unless the model always fails. */
  async evaluate(model: string): Promise<void> {
    const evaluator = {
      name: model,
      trigger: { method: 'vendor/asked' },
      llm: { operation: 'classify', prompt: 'Is this safe?', connection: model },
      processor: { path: 'echo.wasm' },
    };
    await this.#service.manage('PUT', '/evaluators', { evaluators: [evaluator] });
    const client = modernClient(this.#service.url());
    for (let calls = 0; calls < 2; calls++) {
      const response = parseObject((await client.call('vendor/asked', '{"q":"x"}')).text);
      const { message } = parseObject(response.error);
      const hasResult = typeof message === 'string' && message.includes('"llmResult":');
      this.counts.evaluations++;
      if (hasResult === model.includes('failing')) this.#fail(`${model}: evaluated ${JSON.stringify(response)}`);
    }
    const refusals = this.#service.log.filter(
      (line) => line.includes('refused members') && line.includes(`"${model}"`),
    );
    const expected = model === this.#backend.refusing ? 1 : 0;
    if (refusals.length !== expected) this.#fail(`${model}: refused members ${refusals.length} times`);
  }

  #fail(failure: string): void {
    this.#print(`FAILED ${failure}`);
    this.failures.push(failure);
  }
}

function report(results: readonly BackendResult[], skipped: readonly string[]): string {
  const rows = results.map(
    ({ title, steps, failing, records, evaluations, failures }) =>
      `| ${title} | ${steps} | ${failing} | ${records} | ${evaluations} | **${failures.length}** |`,
  );
  return [
    'Each step of the official clients (`openai`, `@anthropic-ai/sdk`) runs directly and through the inference listener: both have the',
    'same outcome, and the record equals what the client assembled. Evaluators use the same models.',
    '',
    '| Server | steps | of which fail directly, too | records compared | evaluations | differences |',
    '|---|---|---|---|---|---|',
    ...rows,
    ...(skipped.length > 0 ? ['', `Skipped: ${skipped.join('; ')}.`] : []),
    ...results.flatMap(({ failures }) => failures.map((failure) => `\n- ${failure.slice(0, 300)}`)),
  ].join('\n');
}
