import { toolInput, toolUpdate } from '@sluice/contract';
import { ApiError, type Client, unwrap } from '@sluice/contract/client';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { Failure } from '../failure.ts';
import { checked } from '../files/checked.ts';
import type { Actual } from './actual.ts';
import { effective, overrideChanges, type ToolHome } from './effective.ts';
import { type Contents, contentsText, type OverrideStep, type Step } from './step.ts';
import { ToolFinder, whyUnavailable } from './tool-finder.ts';

/** What became of a step. */
export type Outcome = { readonly step: Step } & (
  | { readonly status: 'done'; readonly notes: readonly string[] }
  /** It was so already when its turn came. */
  | { readonly status: 'unchanged' }
  | { readonly status: 'failed'; readonly error: unknown }
  /** Its turn did not come. */
  | { readonly status: 'not done' }
);

/** Settings of {@link execute}. */
export interface ExecuteOptions {
  /** Once aborted, no further step is begun. */
  readonly interrupted: AbortSignal;
  /** Told of every step, in order. */
  readonly onOutcome: (outcome: Outcome) => void;
}

/** Does one step after the other, until one fails. Never rejects; `actual` is what the steps were planned on. */
export async function execute(
  client: Client,
  steps: readonly Step[],
  actual: Actual,
  { interrupted, onOutcome }: ExecuteOptions,
): Promise<Outcome[]> {
  const executor = new Executor(client, actual);
  const outcomes: Outcome[] = [];
  let stopped = false;
  for (const step of steps) {
    stopped ||= interrupted.aborted;
    const outcome: Outcome = stopped ? { step, status: 'not done' } : await attempt(executor, step);
    stopped ||= outcome.status === 'failed';
    outcomes.push(outcome);
    onOutcome(outcome);
  }
  return outcomes;
}

async function attempt(executor: Executor, step: Step): Promise<Outcome> {
  try {
    const notes = await executor.run(step);
    return notes === undefined ? { step, status: 'unchanged' } : { step, status: 'done', notes };
  } catch (error) {
    return { step, status: 'failed', error };
  }
}

/** What a step has to say when it is done; undefined when there was nothing to do. */
type Notes = readonly string[] | undefined;

class Executor {
  readonly #client: Client;
  readonly #homes: Map<string, ToolHome>;
  readonly #tools: ToolFinder;

  constructor(client: Client, { forwards, discovered }: Actual) {
    this.#client = client;
    this.#homes = new Map(forwards.map((forward) => [forward.name, forward]));
    this.#tools = new ToolFinder(client, discovered);
  }

  async run(step: Step): Promise<Notes> {
    // A step may free a name, so that what it shadowed is served.
    if (step.kind !== 'override') this.#tools.outdated();
    switch (step.kind) {
      case 'namespace':
        return this.#namespace(step);
      case 'service':
        return this.#service(step);
      case 'forward':
        return this.#forward(step);
      case 'tool':
        return this.#tool(step);
      case 'override':
        return this.#override(step);
    }
  }

  async #namespace(step: Step & { kind: 'namespace' }): Promise<Notes> {
    const { name } = step;
    if (step.action === 'delete') return gone(removeNamespace(this.#client, name, step.contents));
    const { labels } = step;
    if (step.action === 'create') await unwrap(this.#client.POST('/api/v1/namespaces', { body: { name, labels } }));
    else await unwrap(this.#client.PUT('/api/v1/namespaces/{name}', { params: { path: { name } }, body: { labels } }));
    return [];
  }

  async #service(step: Step & { kind: 'service' }): Promise<Notes> {
    if (step.action !== 'delete') {
      await unwrap(this.#client.POST('/api/v1/services', { body: step.entry }));
      return [];
    }
    const { name, serviceType } = step.entry;
    const params = { path: { name }, query: { serviceType } };
    const notes = await gone(unwrap(this.#client.DELETE('/api/v1/services/{name}', { params })));
    for (const body of step.again) await unwrap(this.#client.POST('/api/v1/services', { body }));
    return notes;
  }

  async #forward(step: Step & { kind: 'forward' }): Promise<Notes> {
    const { name } = step;
    const removed =
      step.action === 'create'
        ? undefined
        : await gone(unwrap(this.#client.DELETE('/api/v1/forwards/{name}', { params: { path: { name } } })));
    if (step.action === 'delete') return removed;
    const { address, namespace, labels, prefix } = step.forward;
    const body = { name, address, namespace, labels, ...(prefix !== '' && { prefix }) };
    const registered = await unwrap(this.#client.POST('/api/v1/forwards', { body }));
    this.#homes.set(name, step.forward);
    this.#tools.forget(name);
    if (registered.available) return [`${registered.tools_discovered} tools`];
    return [`not available: ${whyUnavailable(registered)}`];
  }

  async #tool(step: Step & { kind: 'tool' }): Promise<Notes> {
    const { namespace, name } = step;
    const params = { path: { name }, query: { namespace } };
    if (step.action === 'delete') return gone(unwrap(this.#client.DELETE('/api/v1/tools/{name}', { params })));
    const body = checked(toolInput, step.members, 'tool');
    if (step.action === 'create') await unwrap(this.#client.POST('/api/v1/tools', { body }));
    else await unwrap(this.#client.PUT('/api/v1/tools/{name}', { params, body }));
    return [];
  }

  async #override(step: Step & OverrideStep): Promise<Notes> {
    const tool = await this.#tools.find(step);
    const home = this.#homes.get(step.forward);
    if (!home) throw new Failure(`forward ${step.forward} is not known`);
    const { name: next = tool.name } = step.wanted;
    const changed = step.action === 'park' ? { ...tool, name: next } : effective(step.wanted, tool, home);
    if (overrideChanges(tool, changed).length === 0) return undefined;
    const { name, namespace, labels, members } = changed;
    const whole: JsonObject = { ...members, name, namespace, labels };
    await unwrap(
      this.#client.PUT('/api/v1/tools/{name}', {
        params: { path: { name: tool.name }, query: { namespace: tool.namespace } },
        body: checked(toolUpdate, whole, 'tool'),
      }),
    );
    this.#tools.changed({ ...tool, name, namespace, labels, members });
    return [];
  }
}

/** Something deleted: nothing was to be done when it was not there. */
async function gone(removal: Promise<unknown>): Promise<Notes> {
  try {
    await removal;
    return [];
  } catch (error) {
    if (error instanceof ApiError && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}

/**
 * Deletes a namespace with exactly what the plan has shown to be in it. Throws {@link Failure} when something else is in
 * it by now, and changes nothing then.
 */
export async function removeNamespace(client: Client, name: string, planned: Contents): Promise<void> {
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
    const differs = Object.entries(planned).some(([what, count]) => now[what] !== count);
    if (differs) {
      throw new Failure(`namespace ${name} holds ${contentsText(now)} now, which is not what was planned`, {
        cause: error,
      });
    }
    await remove(true);
  }
}
