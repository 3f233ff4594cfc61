import { allOperations, type Operation, operations } from '@sluice/contract';
import { expect } from 'vitest';
import type { Answered, Api } from './api.fixture.ts';

/** An address without a listener. */
const UNREACHABLE = 'http://127.0.0.1:9/mcp';

/** A minimal body of each kind. Operations of a new kind need another one. */
const BODIES: Readonly<Record<string, object>> = {
  namespace: { name: 'x' },
  forward: { name: 'x', address: UNREACHABLE },
  'forward change': { labels: { a: 'b' } },
  'forward test': { address: UNREACHABLE },
  tool: { name: 'x', description: '', uri: 'http://u/mcp', toolType: 'custom', input_schema: {} },
  resource: { name: 'x', location: 'x:1', type: 'custom' },
  prompt: { name: 'x' },
  service: { name: 'x', address: 'h:7', serviceType: 'tool-invoker' },
  'inference configuration': { upstream: '127.0.0.1:9' },
  evaluators: { evaluators: [] },
  identity: { identity: {} },
  'selection of tools': { enabled: true, names: ['x'] },
  'selection of resources': { enabled: true, uris: ['x:1'] },
  'selection of prompts': { enabled: true, names: ['x'] },
  activation: {},
  'dry run': {
    evaluator: {
      name: 'x',
      trigger: { method: 'tools/call' },
      llm: { operation: 'classify', prompt: '', connection: 'c' },
      processor: { path: 'x.wasm' },
    },
    request: { method: 'tools/call' },
    answer: '',
  },
  binding: { conversation_id: 'x' },
  state: { namespaces: [{ name: 'x' }] },
  block: { for: '1h' },
  provision: { name: 'x', configuration: 'c', secrets: 's' },
};

/** Whether all responses are JSON: no event stream, which stays open, and no download. */
export function isJsonOperation({ responses }: Operation): boolean {
  return Object.values(responses).every(({ eventStream, mediaType }) => !eventStream && mediaType === undefined);
}

/** Operations by test name. */
export function named(given: readonly Operation[]): (readonly [string, Operation])[] {
  return given.map((operation) => [`${operation.method} ${operation.path}`, operation]);
}

/** Tags of tests that take long for each operation: `npm test` runs them for one operation of each method. */
export function tagsOf(operation: Operation): string[] {
  const first = allOperations.find((other) => other.method === operation.method && isJsonOperation(other));
  return first === operation ? [] : ['slow'];
}

/** A valid body for the operation, with this address for forwards; undefined if it has no body. */
export function bodyFor({ body }: Operation, address = UNREACHABLE): object | undefined {
  if (!body) return undefined;
  const sample = BODIES[body.kind];
  if (!sample) throw new Error(`no sample of a ${body.kind}`);
  return body.kind === 'forward' ? { ...sample, address } : sample;
}

/** The operation's path with this name; by default that of the entries of {@link makeOneOfEach}. */
export function pathOf({ path, pathParameter: parameter }: Operation, name = parameter ? '1' : 'x'): string {
  return path.replace(/\{\w+\}/, name);
}

/**
 * Creates one entry named `x` of each kind, the forward with this address, and a revision of evaluators and identity.
 */
export async function makeOneOfEach(api: Api, address: string): Promise<void> {
  for (const operation of allOperations) {
    if (operation.responses[201]) await make(api, operation, address);
  }
  for (const operation of [operations.evaluators.replace, operations.identity.replace, operations.blocks.set]) {
    const { status } = await api.call(operation.method, pathOf(operation), bodyFor(operation));
    expect(status, operation.id).toBe(200);
  }
}

/** Whether the operation needs an existing entry, the one in its path. */
export function needsWhatItNames({ path, errors: failures }: Operation): boolean {
  return path.includes('{') && failures.includes('NOT_FOUND');
}

/**
 * Reverts an operation, so that it can be repeated: deletes the created entry, or creates the deleted one again. Fails
 * if there is nothing to revert.
 */
export async function undo(api: Api, operation: Operation, { location }: Answered, address: string) {
  const { method, path } = operation;
  if (location !== '') expect((await api.call('DELETE', location)).status, location).toBe(200);
  // Clearing a list needs no revert, nor does an operation without an existing entry.
  if (method !== 'DELETE' || !needsWhatItNames(operation)) return;
  if (operation.id === operations.blocks.remove.id) {
    expect((await api.call('PUT', pathOf(operation), {})).status).toBe(200);
    return;
  }
  const maker = allOperations.find(({ responses, path: made }) => responses[201] && path === `${made}/{name}`);
  if (!maker) throw new Error(`nothing makes again what DELETE ${path} deletes`);
  await make(api, maker, address);
}

async function make(api: Api, operation: Operation, address: string): Promise<void> {
  const { status } = await api.call(operation.method, operation.path, bodyFor(operation, address));
  expect(status, operation.id).toBe(201);
}
