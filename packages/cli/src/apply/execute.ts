import { changedHeaders, type Forward, mergeExpose } from '@sluice/contract';
import { ApiError, type Client, entryParams, unwrap } from '@sluice/contract/client';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { counted } from '@sluice/protocol/text';
import { formatWarning } from '../evaluators/revisions.ts';
import { Failure } from '../failure.ts';
import { validated } from '../files/document.ts';
import type { CurrentState } from './current-state.ts';
import type { DesiredForward } from './desired-state.ts';
import {
  applyOverrides,
  type ForwardDefaults,
  flattenTool,
  ToolLookup,
  toolChanges,
  unavailableReason,
} from './discovered-tools.ts';
import {
  type EvaluatorStep,
  formatNamespaceContents,
  type NamespaceContents,
  type OverrideStep,
  type Step,
} from './step.ts';

/** Outcome of a step. */
export type Outcome = { readonly step: Step } & (
  | { readonly status: 'done'; readonly notes: readonly string[] }
  /** The entry was already in the desired state. */
  | { readonly status: 'unchanged' }
  | { readonly status: 'failed'; readonly error: unknown }
  /** The run stopped before. */
  | { readonly status: 'not done' }
);

/** Settings of {@link executeSteps}. */
export interface ExecuteOptions {
  /** Skips evaluators whose action cannot be loaded; otherwise they fail. */
  readonly allowBroken?: boolean;
  /** No further step is started once aborted. */
  readonly interrupted: AbortSignal;
  /** Called for every step, in order. */
  readonly onOutcome: (outcome: Outcome) => void;
}

/** Executes the steps in order until one fails. Never rejects. `actual` is the state that the plan is based on. */
export async function executeSteps(
  client: Client,
  steps: readonly Step[],
  actual: CurrentState,
  { interrupted, onOutcome, allowBroken = false }: ExecuteOptions,
): Promise<Outcome[]> {
  const executor = new StepExecutor(client, actual, steps, allowBroken);
  const outcomes: Outcome[] = [];
  let stopped = false;
  for (const step of steps) {
    stopped ||= interrupted.aborted;
    const outcome: Outcome = stopped ? { step, status: 'not done' } : await runStep(executor, step);
    stopped ||= outcome.status === 'failed';
    outcomes.push(outcome);
    onOutcome(outcome);
  }
  return outcomes;
}

async function runStep(executor: StepExecutor, step: Step): Promise<Outcome> {
  try {
    const notes = await executor.run(step);
    return notes === undefined ? { step, status: 'unchanged' } : { step, status: 'done', notes };
  } catch (error) {
    return { step, status: 'failed', error };
  }
}

/** Notes of a completed step; undefined when nothing had to be done. */
type StepNotes = readonly string[] | undefined;

class StepExecutor {
  readonly #client: Client;
  readonly #forwards: Map<string, ForwardDefaults>;
  readonly #tools: ToolLookup;
  readonly #allowBroken: boolean;
  readonly #steps: readonly Step[];
  /** Tools that are disabled until their own step, as {@link originOf}. */
  readonly #withheld = new Set<string>();
  #evaluators: { readonly revision: number; readonly list: EvaluatorStep['list'] };

  constructor(
    client: Client,
    { forwards, discovered, evaluators }: CurrentState,
    steps: readonly Step[],
    allowBroken: boolean,
  ) {
    this.#client = client;
    this.#steps = steps;
    this.#forwards = new Map(forwards.map((forward) => [forward.name, forward]));
    this.#tools = new ToolLookup(client, discovered);
    this.#allowBroken = allowBroken;
    this.#evaluators = evaluators;
  }

  async run(step: Step): Promise<StepNotes> {
    // The step may free a name, so that a shadowed tool becomes served.
    if (step.kind !== 'override') this.#tools.invalidate();
    switch (step.kind) {
      case 'namespace':
        return this.#runNamespace(step);
      case 'service':
        return this.#runService(step);
      case 'forward':
        return this.#runForward(step);
      case 'tool':
        return this.#runTool(step);
      case 'override':
        return this.#runOverride(step);
      case 'evaluator':
        return this.#runEvaluators(step);
    }
  }

  async #runNamespace(step: Step & { kind: 'namespace' }): Promise<StepNotes> {
    const { name } = step;
    if (step.action === 'delete') return ignoreNotFound(deleteNamespace(this.#client, name, step.contents));
    const { labels } = step;
    if (step.action === 'create') await unwrap(this.#client.POST('/api/v1/namespaces', { body: { name, labels } }));
    else await unwrap(this.#client.PUT('/api/v1/namespaces/{name}', { params: { path: { name } }, body: { labels } }));
    return [];
  }

  async #runService(step: Step & { kind: 'service' }): Promise<StepNotes> {
    if (step.action !== 'delete') {
      await unwrap(this.#client.POST('/api/v1/services', { body: step.entry }));
      return [];
    }
    const { name, serviceType } = step.entry;
    const params = { path: { name }, query: { serviceType } };
    const notes = await ignoreNotFound(unwrap(this.#client.DELETE('/api/v1/services/{name}', { params })));
    for (const body of step.reregister) await unwrap(this.#client.POST('/api/v1/services', { body }));
    return notes;
  }

  async #runForward(step: Step & { kind: 'forward' }): Promise<StepNotes> {
    const { name } = step;
    const params = { path: { name } };
    if (step.action === 'delete') {
      return ignoreNotFound(unwrap(this.#client.DELETE('/api/v1/forwards/{name}', { params })));
    }
    if (step.action === 'update') return this.#changeForward(step.forward);
    if (step.action === 'rename') {
      const { prefix } = step.forward;
      await unwrap(this.#client.PATCH('/api/v1/forwards/{name}', { params, body: { prefix } }));
      return [];
    }
    const { address, namespace, labels, prefix, proxy, compression } = step.forward;
    const headers = changedHeaders(undefined, step.forward.headers);
    const expose = mergeExpose(undefined, step.forward.expose);
    const body = {
      name,
      address,
      namespace,
      labels,
      ...(prefix !== '' && { prefix }),
      ...(headers && { headers }),
      ...(expose && { expose }),
      ...(proxy !== undefined && { proxy }),
      ...(compression && { compression }),
    };
    const registered = await unwrap(this.#client.POST('/api/v1/forwards', { body }));
    return this.#registered(step.forward, registered);
  }

  /** Labels of the file replace those of the forward; the API merges them. */
  async #changeForward(forward: DesiredForward): Promise<StepNotes> {
    const { name, address, namespace, labels, prefix, headers, expose, proxy, compression } = forward;
    const params = { path: { name } };
    const { labels: before, namespace: home } = await unwrap(this.#client.GET('/api/v1/forwards/{name}', { params }));
    if (namespace !== home) await this.#withhold(name, namespace);
    const removed = Object.keys(before).filter((label) => !Object.hasOwn(labels, label));
    const changes = { ...labels, ...Object.fromEntries(removed.map((label) => [label, null])) };
    const body = {
      address,
      namespace,
      labels: changes,
      prefix: prefix === '' ? null : prefix,
      ...(headers !== undefined && { headers }),
      ...(expose !== undefined && { expose }),
      proxy: proxy ?? null,
      compression: compression ?? null,
    };
    const changed = await unwrap(this.#client.PATCH('/api/v1/forwards/{name}', { params, body }));
    return this.#registered(forward, changed);
  }

  /** Tools that are to be in another namespace than their forward would be in its new one until their own step. */
  async #withhold(forward: string, namespace: string): Promise<void> {
    const names: string[] = [];
    for (const step of this.#steps) {
      if (step.kind !== 'override' || step.action !== 'update' || step.forward !== forward) continue;
      const isAway = step.wanted.namespace !== undefined && step.wanted.namespace !== namespace;
      const tool = isAway ? await this.#tools.find({ ...step, position: undefined }) : undefined;
      if (!tool?.enabled) continue;
      names.push(step.upstreamName);
      this.#withheld.add(originOf(step));
    }
    if (names.length === 0) return;
    await unwrap(this.#client.POST('/api/v1/tools/enabled', { body: { forward, names, enabled: false } }));
  }

  #registered(forward: DesiredForward, state: Forward): string[] {
    this.#forwards.set(forward.name, forward);
    this.#tools.forgetForward(forward.name);
    if (state.available) return [counted(state.tools_discovered, 'tool')];
    return [`not available: ${unavailableReason(state)}`];
  }

  async #runTool(step: Step & { kind: 'tool' }): Promise<StepNotes> {
    const { namespace, name } = step;
    if (step.action === 'delete') {
      const params = entryParams(name, { namespace });
      return ignoreNotFound(unwrap(this.#client.DELETE('/api/v1/tools/{name}', { params })));
    }
    const body = await validated(({ toolInput }) => toolInput, step.members, 'tool');
    if (step.action === 'create') await unwrap(this.#client.POST('/api/v1/tools', { body }));
    else {
      const params = entryParams(name, { namespace, unknown_members: 'keep' as const });
      await unwrap(this.#client.PUT('/api/v1/tools/{name}', { params, body }));
    }
    return [];
  }

  /** The first step of several with the same list replaces the evaluators; the others have nothing left to do. */
  async #runEvaluators({ list }: EvaluatorStep): Promise<StepNotes> {
    const { revision, list: present } = this.#evaluators;
    if (list === present) return [];
    const call = this.#client.PUT('/api/v1/evaluators', {
      params: { query: { strict: this.#allowBroken ? 'false' : 'true' } },
      // Changes since the plan are not overwritten.
      body: { evaluators: [...list], expected_revision: revision },
    });
    await unwrap(call);
    const { data, response } = await call;
    const [, active] = /^(?:W\/)?"(\d+)"$/.exec(response.headers.get('etag') ?? '') ?? [];
    this.#evaluators = { revision: Number(active), list };
    return (data?.warnings ?? []).map(formatWarning);
  }

  async #runOverride(step: Step & OverrideStep): Promise<StepNotes> {
    const tool = await this.#tools.find(step);
    if (!tool) return undefined;
    const isWithheld = step.action === 'update' && this.#withheld.delete(originOf(step));
    const forward = this.#forwards.get(step.forward);
    if (!forward) throw new Failure(`unknown forward ${step.forward}`);
    const { name: next = tool.name } = step.wanted;
    const changed =
      step.action === 'rename'
        ? { ...tool, name: next }
        : applyOverrides(step.wanted, isWithheld ? { ...tool, enabled: true } : tool, forward);
    if (toolChanges(tool, changed).length === 0) return undefined;
    if (!isWithheld && !tool.enabled && changed.enabled && step.widens === undefined) {
      throw new Failure(`tool ${tool.name} was disabled after the plan; apply again to enable it`);
    }
    const { name, namespace, labels, enabled, members } = changed;
    const entry: JsonObject = flattenTool(changed);
    await unwrap(
      this.#client.PUT('/api/v1/tools/{name}', {
        // The plan has warned of similar names.
        params: entryParams(tool.name, { namespace: tool.namespace, unknown_members: 'keep' as const }),
        body: await validated(({ toolUpdate }) => toolUpdate, entry, 'tool'),
      }),
    );
    this.#tools.update({ ...tool, name, namespace, labels, enabled, members });
    return [];
  }
}

function originOf({ forward, upstreamName }: OverrideStep): string {
  return JSON.stringify([forward, upstreamName]);
}

/** Resolves with undefined when the entry was already deleted. */
async function ignoreNotFound(removal: Promise<unknown>): Promise<StepNotes> {
  try {
    await removal;
    return [];
  } catch (error) {
    if (error instanceof ApiError && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}

/**
 * Deletes a namespace with exactly the planned contents. Throws {@link Failure} and changes nothing when the contents
 * differ.
 */
export async function deleteNamespace(client: Client, name: string, preparePlan: NamespaceContents): Promise<void> {
  const remove = (cascade: boolean) =>
    unwrap(
      client.DELETE('/api/v1/namespaces/{name}', {
        params: { path: { name }, query: cascade ? { cascade: 'true' } : {} },
      }),
    );
  try {
    await remove(false);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'CONFLICT' || !isJsonObject(error.details)) throw error;
    const now = error.details;
    const differs = Object.entries(preparePlan).some(([what, count]) => now[what] !== count);
    if (differs) {
      throw new Failure(`namespace ${name} now contains ${formatNamespaceContents(now)}, which differs from the plan`, {
        cause: error,
      });
    }
    await remove(true);
  }
}
