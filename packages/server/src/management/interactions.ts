import { operations } from '@sluice/contract';
import { z } from 'zod';
import type { QueryHandlers } from '../http/peers.ts';
import { quote } from '../http/settings.ts';
import type { Interaction, InteractionFilter, InteractionStore, RecordedBody } from '../inference/interaction-store.ts';
import type { InferenceChange, InferenceSettings } from '../inference/settings.ts';
import { OperationError } from '../registry/operation-error.ts';
import type { ManagementContext } from './context.ts';
import { interactionFrames, mergedInteractions, SLICE_BYTES } from './merged-interactions.ts';
import { dataResponse, LIST_TIMEOUT_MS, streamResponse, withMissing } from './responses.ts';
import { parseLimit, type Router } from './router.ts';

/** Serializes an interaction. Bodies that are JSON are inserted as they were sent. */
function* interactionJson(interaction: Interaction, withBodies: boolean): Generator<string | Buffer> {
  const { request, response } = interaction;
  const head = {
    epoch_ms: interaction.epochMs,
    path: interaction.path,
    conversation_id: interaction.conversationId,
    completion_id: interaction.completionId,
    model: interaction.model,
  };
  yield JSON.stringify(head).slice(0, -1);
  if (withBodies) {
    yield ',"request_body":';
    yield bodyJson(request);
    yield ',"response_body":';
    yield bodyJson(response);
  }
  const rest = {
    status_code: interaction.statusCode,
    duration_ms: interaction.durationMs,
    ...(request.truncated && { request_truncated: true }),
    ...(response.truncated && { response_truncated: true }),
  };
  yield `,${JSON.stringify(rest).slice(1)}`;
}

function bodyJson({ body }: RecordedBody): string | Buffer {
  if (body === undefined) return 'null';
  return body.isJson ? body.bytes : JSON.stringify(body.bytes.toString());
}

/**
 * `/api/v1/interactions`: recorded completions; `/api/v1/config/inference`: upstream of the inference listener and capacity of
 * the recorder.
 */
export function inferenceRoutes(router: Router, context: ManagementContext): void {
  const { interactions, peers, inference } = context;
  const { interactions: list, clearInteractions: clear, configure } = operations.inference;

  router.add(list, async ({ query }) => {
    const found = interactions.list(filterOf(query));
    const withBodies = query('bodies') !== 'false';
    const given = FILTERS.flatMap((name): [string, string][] => {
      const value = query(name);
      return value === undefined ? [] : [[name, value]];
    });
    const responses = await peers?.stream(`${QUERY}?${new URLSearchParams(given)}`, LIST_TIMEOUT_MS);
    const serialize = (interaction: Interaction) => interactionJson(interaction, withBodies);
    const merged = mergedInteractions(found, responses, serialize, parseLimit(query('limit')));
    const headers = { 'content-type': 'application/json' };
    if (peers) return streamResponse(merged, headers);
    const { value: first } = await merged.next();
    // Smaller responses are sent in one piece.
    if (first.length < SLICE_BYTES) return { status: 200, headers, body: first };
    // All interactions may have hundreds of MiB: they are serialized as fast as the client reads.
    return streamResponse(startingWith(first, merged), headers);
  });

  router.add(clear, async () => {
    interactions.clear();
    const cleared = dataResponse('{"cleared":true}');
    if (!peers) return cleared;
    const limits = { timeoutMs: LIST_TIMEOUT_MS, maxBytes: 1024 };
    const query = { method: 'DELETE', target: QUERY, ...limits, parse: () => {} } as const;
    return withMissing(cleared, (await peers.query(query)).missingReplicas);
  });

  router.addWithBody(configure, async ({ body: { upstream, capacity } }) => {
    const unconfirmed = await set(inference, { upstream, capacity });
    const settings = { upstream: inference.upstreamText, capacity: inference.capacity };
    return dataResponse(JSON.stringify(settings), { unconfirmed });
  });
}

const QUERY = '/interactions';

const FILTERS = ['conversation_id', 'completion_id', 'limit', 'bodies'] as const;

function filterOf(query: (name: (typeof FILTERS)[number]) => string | undefined): InteractionFilter {
  return {
    conversationId: query('conversation_id'),
    completionId: query('completion_id'),
    limit: parseLimit(query('limit')),
  };
}

/** What this replica answers when another one lists or deletes interactions. */
export function interactionQueries(interactions: Pick<InteractionStore, 'list' | 'clear'>): QueryHandlers {
  return {
    [`GET ${QUERY}`]: (query) => {
      const found = interactions.list(filterOf((name) => query.get(name) ?? undefined));
      const withBodies = query.get('bodies') !== 'false';
      return interactionFrames(found, (interaction) => interactionJson(interaction, withBodies));
    },
    [`DELETE ${QUERY}`]: () => {
      interactions.clear();
      return [];
    },
  };
}

async function* startingWith(first: Buffer, others: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  yield first;
  yield* others;
}

async function set(inference: InferenceSettings, change: InferenceChange): Promise<readonly string[] | undefined> {
  try {
    return await inference.set(change);
  } catch (error) {
    if (!(error instanceof z.ZodError)) throw error;
    const message = `${quote(change.upstream ?? '')} ${error.issues[0]?.message}`;
    const { kind } = operations.inference.configure.body;
    throw new OperationError('BAD_REQUEST', `invalid ${kind}: upstream ${message}`, [{ path: 'upstream', message }]);
  }
}
