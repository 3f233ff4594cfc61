import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ChatCompletions, startChatCompletions } from '../../packages/server/testing/chat-completions.ts';
import { type Gateway, startGateway } from '../fixtures/gateway.ts';

/** A gateway that has an LLM to ask, and a folder with actions. */
export interface JudgingGateway extends AsyncDisposable {
  readonly gateway: Gateway;
  readonly llm: ChatCompletions;
  /** Writes an action's file; the path that evaluators name it by. */
  keep(name: string, component: Uint8Array): Promise<string>;
  /** Replaces all evaluators; the names of those whose file is no action. Throws unless the answer is 200. */
  replace(evaluators: readonly Judging[]): Promise<readonly string[]>;
}

/** An evaluator as far as evaluators differ here. */
export interface Judging {
  readonly name: string;
  readonly method: string;
  readonly namespace?: string;
  readonly prompt?: string;
  readonly path: string;
  readonly onError: 'block' | 'continue';
}

/** Starts both; `nodeArgs` are arguments of Node.js for the gateway. */
export async function startJudging(nodeArgs: readonly string[] = []): Promise<JudgingGateway> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-judging-'));
  const llm = await startChatCompletions();
  const end = async () => {
    await llm.close();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const file = join(folder, 'service.json');
    await writeFile(file, JSON.stringify({ llm_connections: [{ name: 'judge', model: 'scripted', url: llm.url }] }));
    const gateway = await startGateway({ nodeArgs, args: ['--service-config', file] });
    return {
      gateway,
      llm,
      async keep(name, component) {
        await writeFile(join(folder, name), component);
        return name;
      },
      async replace(evaluators) {
        const { status, body } = await gateway.api('PUT', '/api/v1/evaluators', {
          evaluators: evaluators.map(submitted),
        });
        if (status !== 200) throw new Error(`PUT /api/v1/evaluators: ${status} ${JSON.stringify(body).slice(0, 500)}`);
        return skippedIn(body);
      },
      async [Symbol.asyncDispose]() {
        await gateway.close();
        await end();
      },
    };
  } catch (error) {
    await end();
    throw error;
  }
}

function submitted({ name, method, namespace, prompt = 'Judge the request.', path, onError }: Judging): object {
  return {
    name,
    trigger: { method, namespace: namespace ?? null },
    llm: { operation: 'classify', prompt, connection: 'judge' },
    processor: { path },
    on_error: onError,
  };
}

/** Evaluators that the answer warns of. */
function skippedIn(body: unknown): string[] {
  const warnings: unknown = Object(body).warnings;
  if (!Array.isArray(warnings)) return [];
  return warnings.map((warning) => {
    const { evaluator, code } = Object(warning);
    if (code !== 'WASM_COMPILE_FAILED') throw new Error(`a warning of another kind: ${JSON.stringify(warning)}`);
    return String(evaluator);
  });
}
