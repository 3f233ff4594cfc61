import { type Client, type components, unwrap } from '@sluice/contract/client';
import { type QueryKey, type UseQueryResult, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback } from 'react';
import { useApi } from './api.ts';
import type { Kind } from './live-queries.ts';

type Schemas = components['schemas'];
export type Namespace = Schemas['Namespace'];
export type Forward = Schemas['Forward'];
export type Service = Schemas['Service'];
export type Tool = Schemas['Tool'];
export type Resource = Schemas['Resource'];
export type Prompt = Schemas['Prompt'];
export type PluginManifest = Schemas['PluginManifest'];
export type Evaluator = Schemas['Evaluator'];
export type Metrics = Schemas['Metrics'];
export type Task = Schemas['Task'];
export type Replica = Schemas['Replica'];
export type Block = Schemas['Block'];

/** Reads something from the service; `key` begins with the kind of object whose changes make it read again. */
export function useApiQuery<Data>(
  key: readonly [Kind | 'other', ...string[]],
  read: (client: Client, signal: AbortSignal) => Promise<Data>,
): UseQueryResult<Data> {
  const { client } = useApi();
  const queryKey: QueryKey = key;
  return useQuery({ queryKey, queryFn: ({ signal }) => read(client, signal) });
}

/** The namespaces. */
export function useNamespaces(): UseQueryResult<Namespace[]> {
  return useApiQuery(['namespaces'], (client, signal) => unwrap(client.GET('/api/v1/namespaces', { signal })));
}

/** The forwards. */
export function useForwards(): UseQueryResult<Forward[]> {
  return useApiQuery(['forwards'], (client, signal) => unwrap(client.GET('/api/v1/forwards', { signal })));
}

/** The capability services. */
export function useServices(): UseQueryResult<Service[]> {
  return useApiQuery(['services'], (client, signal) => unwrap(client.GET('/api/v1/services', { signal })));
}

/** The evaluators of the active revision as they were submitted, skipped ones included. */
export interface EvaluatorSet {
  readonly evaluators: readonly Evaluator[];
  /** Names of those that could not be loaded. */
  readonly skipped: readonly string[];
  /** Active revision; 0 if there is none. */
  readonly revision: number;
}

/** The active set of evaluators. */
export function useEvaluatorSet(): UseQueryResult<EvaluatorSet> {
  return useApiQuery(['evaluators', 'active'], async (client, signal) => {
    const revisions = await unwrap(client.GET('/api/v1/evaluators/revisions', { signal }));
    // A request for the active one would be an error in the browser's console when there is none.
    if (!revisions.some(({ status }) => status === 'active')) return { evaluators: [], skipped: [], revision: 0 };
    const { id, evaluators, skipped } = await unwrap(client.GET('/api/v1/evaluators/revisions/active', { signal }));
    return { evaluators, skipped, revision: id };
  });
}

/** What is blocked; callers who may not read bodies see forwards only. */
export function useBlocks(): UseQueryResult<Block[]> {
  return useApiQuery(['other', 'blocks'], (client, signal) => unwrap(client.GET('/api/v1/blocks', { signal })));
}

/** The counters since the service started. */
export function useMetrics(): UseQueryResult<Metrics> {
  return useApiQuery(['other', 'metrics'], (client, signal) => unwrap(client.GET('/api/v1/metrics', { signal })));
}

/** A change of the service. */
export interface Change<Input> {
  readonly run: (client: Client, input: Input) => Promise<unknown>;
  /** Kinds of objects that it changes. */
  readonly changes: readonly (Kind | 'other')[];
}

/** Returns a function that makes a change and waits until what it affects has been loaded again. Rejects with the error. */
export function useChange<Input>({ run, changes }: Change<Input>): (input: Input) => Promise<void> {
  const { client } = useApi();
  const queries = useQueryClient();
  const { mutateAsync } = useMutation({
    mutationFn: (input: Input) => run(client, input),
    onSettled: () => Promise.all(changes.map((kind) => queries.invalidateQueries({ queryKey: [kind] }))),
  });
  return useCallback(async (input) => void (await mutateAsync(input)), [mutateAsync]);
}
