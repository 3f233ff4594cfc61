import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ChatCompletions, startChatCompletions } from '../../packages/server/testing/chat-completions.ts';
import { type Gateway, startGateway } from '../fixtures/gateway.ts';

/** A gateway with an LLM backend and a folder for actions. */
export interface EvaluatorGateway extends AsyncDisposable {
  readonly gateway: Gateway;
  readonly llm: ChatCompletions;
  /** Writes an action's file and returns its path for evaluators. */
  writeAction(name: string, component: Uint8Array): Promise<string>;
  /** Replaces all evaluators and returns the names of those with an invalid file. Throws unless the status is 200. */
  replace(evaluators: readonly EvaluatorSpec[]): Promise<readonly string[]>;
}

/** The parts of an evaluator in which the campaign's evaluators differ. */
export interface EvaluatorSpec {
  readonly name: string;
  readonly method: string;
  readonly namespace?: string;
  readonly prompt?: string;
  readonly path: string;
  readonly onError: 'block' | 'continue';
}

/** Starts gateway and LLM backend; `nodeArgs` are Node.js arguments for the gateway. */
export async function startEvaluatorGateway(nodeArgs: readonly string[] = []): Promise<EvaluatorGateway> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-evaluators-'));
  const llm = await startChatCompletions();
  const stop = async () => {
    await llm.close();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const file = join(folder, 'service.json');
    await writeFile(file, JSON.stringify({ llm_connections: [{ name: 'llm', model: 'scripted', url: llm.url }] }));
    const gateway = await startGateway({ nodeArgs, args: ['--service-config', file] });
    return {
      gateway,
      llm,
      async writeAction(name, component) {
        await writeFile(join(folder, name), component);
        return name;
      },
      async replace(evaluators) {
        const { status, body } = await gateway.api('PUT', '/api/v1/evaluators', {
          evaluators: evaluators.map(toDefinition),
        });
        if (status !== 200) throw new Error(`PUT /api/v1/evaluators: ${status} ${JSON.stringify(body).slice(0, 500)}`);
        return skippedIn(body);
      },
      async [Symbol.asyncDispose]() {
        await gateway.close();
        await stop();
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

function toDefinition({
  name,
  method,
  namespace,
  prompt = 'Classify the request.',
  path,
  onError,
}: EvaluatorSpec): object {
  return {
    name,
    trigger: { method, namespace: namespace ?? null },
    llm: { operation: 'classify', prompt, connection: 'llm' },
    processor: { path },
    on_error: onError,
  };
}

/** Evaluators with a warning in the response. */
function skippedIn(body: unknown): string[] {
  const warnings: unknown = Object(body).warnings;
  if (!Array.isArray(warnings)) return [];
  return warnings.map((warning) => {
    const { evaluator, code } = Object(warning);
    if (code !== 'WASM_COMPILE_FAILED') throw new Error(`unexpected warning: ${JSON.stringify(warning)}`);
    return String(evaluator);
  });
}
