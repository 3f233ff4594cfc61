import { isJsonObject, type JsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { applyEdits, type Edit, memberText } from '@sluice/protocol/json/text';
import { INTERNAL_ERROR, INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import { acceptsEventStream, acceptsJson } from '@sluice/protocol/mcp/era';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import { UpstreamError } from '../../../http/client/errors.ts';
import { rpcError } from '../../../http/outcome.ts';
import { type Entry, FORWARD_HEADERS_LABEL } from '../../../registry/entries.ts';
import { CallObserver } from '../../../telemetry/call-observer.ts';
import type { Caller, CallOutcome } from '../../downstream.ts';
import type { CallContext, CallPlan } from '../relay/call-plan.ts';
import { RelayedCall } from '../relay/relayed-call.ts';
import { progressTokenOf, traceEdits, withTrace } from '../relay/request-rewrite.ts';
import { type CallRouter, FORWARDING_LOOP, type UpstreamLookup } from '../relay/router.ts';
import { newRequestId, sendMessage } from '../rpc-request.ts';
import type { SessionBindings } from '../sessions/session-bindings.ts';
import type { Upstream, UpstreamSession } from '../upstream.ts';
import { TaskMessages } from './task-messages.ts';
import type { TaskRecord } from './task-record.ts';
import { taskHeaders, taskSession } from './task-requests.ts';
import { TASK_NOT_FOUND, TaskRewriter } from './task-rewriter.ts';
import type { Tasks } from './tasks.ts';

export interface TaskRelayOptions extends CallContext {
  readonly tasks: Tasks;
  readonly forwards: UpstreamLookup;
  readonly router: Pick<CallRouter, 'upstreamHeaders'>;
  readonly sessionBindings: Pick<SessionBindings, 'open'>;
}

/** Prefix of the messages of failures. */
const FAILURE = 'forwarded request failed';
/** Time for the response to a cancellation, in milliseconds. */
const CANCEL_TIMEOUT_MS = 30_000;

/** Sends the requests of clients about their tasks to the upstreams that execute them. */
export class TaskRelay {
  readonly #options: TaskRelayOptions;

  constructor(options: TaskRelayOptions) {
    this.#options = options;
  }

  /** Returns the upstream of a task; undefined if its forward is gone, or has another address now. */
  upstreamOf({ forward, address }: TaskRecord): Upstream | undefined {
    const { forwards } = this.#options;
    const upstream = forward === undefined ? forwards.upstreamAt(address) : forwards.upstream(forward);
    return upstream?.transport.address === address ? upstream : undefined;
  }

  /** Returns the outcome that relays a request about a task; `tool` is the tool that it was created by, if that is served. */
  call(caller: Caller, message: RequestMessage, record: TaskRecord, tool: Entry | undefined): CallOutcome {
    const { tasks } = this.#options;
    const { method } = message;
    const upstream = this.upstreamOf(record);
    if (!upstream) return taskNotFound();
    const headers = this.#headers(caller, message, record, tool);
    if (!headers) return FORWARDING_LOOP;
    const observer = new CallObserver(caller.observation);
    const trace = observer.send({ method, protocol: 'mcp', subject: undefined, server: upstream.server });
    const { accept } = caller.headers;
    const sessions = this.#sessions(caller, record, upstream, headers);
    const plan: CallPlan = {
      message,
      capabilities: caller.capabilities,
      headers: trace ? withTrace(headers, trace) : headers,
      trace,
      streams: acceptsEventStream(accept),
      json: acceptsJson(accept),
      upstream,
      edits: [...taskIdEdits(message, record), ...(trace ? traceEdits(message, trace) : [])],
      progressToken: progressTokenOf(message),
      rewriter: new TaskRewriter(tasks, record, method, caller.capabilities),
      needsTranslation: false,
      serverRequests: undefined,
      openSession: sessions,
      observer,
      summary: undefined,
      failure: FAILURE,
      forward: record.forward,
      namespace: caller.namespace?.name,
      entry: undefined,
      user: caller.user,
      clientAddress: caller.observation?.request.client,
      tasks: undefined,
      messages: record.era === 'legacy' ? this.#messages(caller, record) : undefined,
      waitsForTask: method === 'tasks/result',
      era: caller.era,
      session: caller.session,
    };
    return { kind: 'deferred', start: (response) => new RelayedCall(this.#options, plan, response).start() };
  }

  /** Cancels a task of a legacy client. That it is canceled is durable before the response. */
  async cancel(
    caller: Caller,
    message: RequestMessage,
    record: TaskRecord,
    tool: Entry | undefined,
  ): Promise<CallOutcome> {
    const { tasks } = this.#options;
    const upstream = this.upstreamOf(record);
    if (!upstream) return taskNotFound();
    const headers = this.#headers(caller, message, record, tool);
    if (!headers) return FORWARDING_LOOP;
    const observer = new CallObserver(caller.observation);
    observer.send({ method: message.method, protocol: 'mcp', subject: undefined, server: upstream.server });
    const id = newRequestId();
    const edits = [...taskIdEdits(message, record), { ...message.idRange, text: `"${id}"` }];
    try {
      const session = await this.#sessions(caller, record, upstream, headers)();
      const { text = '' } = await sendMessage(upstream.transport, {
        message: applyEdits(message.text, edits),
        id,
        headers: [...session.identityHeaders, ...headers],
        timeoutMs: CANCEL_TIMEOUT_MS,
      });
      const value = tryParseJson(text);
      if (!isJsonObject(value)) throw new Error('not a response');
      observer.responded(value);
      if (isJsonObject(value.error)) return errorOf(text, value.error);
      await tasks.cancel(record);
      const canceled = { ...record, isCanceled: true };
      const rewriter = new TaskRewriter(tasks, canceled, message.method, caller.capabilities);
      const rewritten = rewriter.rewrite(text, value);
      const result = memberText(rewritten?.text ?? text, 'result');
      if (result !== undefined) return { kind: 'result', json: result };
      return errorOf(rewritten?.text ?? text, isJsonObject(rewritten?.value.error) ? rewritten.value.error : {});
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
      observer.failed('SERVICE_UNAVAILABLE', error.message, error.kind);
      return rpcError(INTERNAL_ERROR, `${FAILURE}: ${error.message}`);
    }
  }

  #messages({ namespace, user }: Caller, { address, session }: TaskRecord): TaskMessages {
    const isOwn = (other: TaskRecord) => other.namespace === namespace?.name && other.user === user;
    return new TaskMessages(this.#options.tasks, { address, session: session?.id }, isOwn);
  }

  /** Headers besides those of the session; those that the client's call was sent with, as far as they are copied. */
  #headers(
    { headers }: Caller,
    { method }: RequestMessage,
    { era, upstreamId }: TaskRecord,
    tool: Entry | undefined,
  ): string[] | undefined {
    const copied = this.#options.router.upstreamHeaders(headers, tool?.labels[FORWARD_HEADERS_LABEL]);
    return copied && [...copied, ...taskHeaders(era, method, upstreamId)];
  }

  /**
   * Returns the function that selects the session of the request: that of the task, and if the upstream does not know it any
   * more, the present one of the client. An upstream whose tasks do not depend on sessions still knows the task there.
   */
  #sessions(
    { session: client }: Caller,
    record: TaskRecord,
    upstream: Upstream,
    headers: readonly string[],
  ): () => UpstreamSession | Promise<UpstreamSession> {
    const { tasks, sessionBindings } = this.#options;
    let isRetry = false;
    return () => {
      if (!isRetry) {
        isRetry = true;
        return taskSession(tasks, record, upstream);
      }
      if (!client) {
        const what = 'no longer knows the session of the task';
        return Promise.reject(new UpstreamError('session-lost', upstream.transport.address, what));
      }
      const opened = upstream.sessions.get(client.id) ?? sessionBindings.open(upstream, client, headers);
      return Promise.resolve(opened).then((session) => {
        tasks.setSession(record, session);
        return session;
      });
    };
  }
}

/** The outcome for an id that is not that of a task of this owner: the same for all reasons. */
export function taskNotFound(): CallOutcome {
  return rpcError(INVALID_PARAMS, TASK_NOT_FOUND);
}

function errorOf(text: string, { code, message }: JsonObject): CallOutcome {
  const data = memberText(memberText(text, 'error') ?? '', 'data');
  const error = {
    code: typeof code === 'number' ? code : INTERNAL_ERROR,
    message: typeof message === 'string' ? message : '',
    ...(data !== undefined && { data }),
  };
  return { kind: 'error', error };
}

/** Returns the edits that replace our id by that of the upstream. */
function taskIdEdits({ paramMembers }: RequestMessage, { upstreamId }: TaskRecord): Edit[] {
  return paramMembers.flatMap(({ key, start, end }) =>
    key === 'taskId' ? [{ start, end, text: JSON.stringify(upstreamId) }] : [],
  );
}
