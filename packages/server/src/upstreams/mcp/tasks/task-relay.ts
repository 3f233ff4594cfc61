import { isJsonObject, type JsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { applyEdits, type Edit, memberText, removeEdits } from '@sluice/protocol/json/text';
import { legacyCapabilities } from '@sluice/protocol/mcp/capabilities';
import { INTERNAL_ERROR, INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import type { Implementation, RequestMessage } from '@sluice/protocol/mcp/message';
import { UpstreamError } from '../../../http/client/errors.ts';
import { type ErrorOutcome, rpcError } from '../../../http/outcome.ts';
import type { Entry } from '../../../registry/entries.ts';
import type { ToolCallSink } from '../../../telemetry/tool-calls/events.ts';
import type { Calls } from '../../calls.ts';
import type { ClientFacts, ClientRequest } from '../../client-facts.ts';
import { deferOutcome, type RequestOutcome } from '../../deferred-outcome.ts';
import type { DownstreamSession } from '../../downstream.ts';
import type { Forwards } from '../../forwards.ts';
import { ObservedSink } from '../../observed-sink.ts';
import type { ResponseSink } from '../../response-sink.ts';
import { FORWARDING_LOOP } from '../../upstream-headers.ts';
import { legacySession, type McpParts } from '../mcp-connection.ts';
import type { CallContext, CallPlan } from '../relay/call-plan.ts';
import { RelayedCall } from '../relay/relayed-call.ts';
import { progressTokenOf, traceEdits, withTrace } from '../relay/request-rewrite.ts';
import { sendMessage } from '../rpc-request.ts';
import type { Upstream, UpstreamSession } from '../upstream.ts';
import { CoreTaskRequests, type TaskReading } from './core-task-requests.ts';
import { ExtensionTaskRequests } from './extension-task-requests.ts';
import { TASK_FAILURE } from './task-call.ts';
import type { TaskCreation } from './task-creation.ts';
import { TaskMessages } from './task-messages.ts';
import { clientEraOf, type TaskRecord } from './task-record.ts';
import { ACKNOWLEDGED, type TaskTarget, taskHeaders, taskSession } from './task-requests.ts';
import { TASK_NOT_FOUND, TaskRewriter } from './task-rewriter.ts';
import type { Tasks } from './tasks.ts';

export interface TaskRelayOptions extends CallContext {
  readonly tasks: Tasks;
  readonly forwards: Pick<Forwards, 'upstream' | 'upstreamAt'>;
  readonly clientOf: Calls['clientOf'];
  readonly sessions: Pick<McpParts, 'sessionBindings' | 'callSessionPool'>;
  /** Identity of the service, for clients without one. */
  readonly clientInfo: Implementation;
  readonly creation: Pick<TaskCreation, 'takeUp'>;
  readonly toolCalls: Pick<ToolCallSink, 'request'>;
}

/** Time for the response to a cancellation, in milliseconds. */
const CANCEL_TIMEOUT_MS = 30_000;

/** Sends the requests of clients about their tasks to the upstreams that execute them. */
export class TaskRelay {
  readonly #options: TaskRelayOptions;
  readonly #core: CoreTaskRequests;
  readonly #extension: ExtensionTaskRequests;

  constructor(options: TaskRelayOptions) {
    this.#options = options;
    this.#core = new CoreTaskRequests(options, options.tasks);
    this.#extension = new ExtensionTaskRequests(options, options.tasks, options.clientInfo);
  }

  /** Returns the upstream of a task; undefined if its forward is gone, or has another address now. */
  upstreamOf({ forward, address }: TaskRecord): Upstream | undefined {
    const { forwards } = this.#options;
    const upstream = forward === undefined ? forwards.upstreamAt(address) : forwards.upstream(forward);
    return upstream?.transport.address === address ? upstream : undefined;
  }

  /**
   * Returns the outcome of a request about a task: relays it, or translates it if client and upstream are of different eras.
   * `tool` is the tool that the task was created by, if that is served.
   */
  request(
    exchange: ClientRequest,
    message: RequestMessage,
    record: TaskRecord,
    tool: Entry | undefined,
  ): RequestOutcome {
    const upstream = this.upstreamOf(record);
    if (!upstream) return taskNotFound();
    const client = this.#options.clientOf(exchange, tool);
    const { copiedHeaders: headers } = client;
    if (!headers) return FORWARDING_LOOP;
    const target = { record, upstream, headers, sessions: () => this.#sessions(client, record, upstream, headers) };
    const later = (outcome: () => Promise<RequestOutcome>) => deferOutcome(outcome, this.#options.log);
    if (clientEraOf(record) !== record.era) return later(() => this.#translate(client, message, target));
    if (record.era === 'legacy' && message.method === 'tasks/cancel') {
      return later(() => this.#cancel(client, message, target));
    }
    if (message.method === 'tasks/update') return later(() => this.#update(client, message, target));
    return this.#relay(client, message, target);
  }

  /**
   * Returns the function that takes a call of a session up again that waited for a task in a process that has ended; undefined
   * if there is none, or it continues.
   */
  async interruptedCall(
    session: DownstreamSession,
    idText: string,
    headers: readonly string[],
  ): Promise<((sink: ResponseSink) => void) | undefined> {
    const { tasks, calls, creation } = this.#options;
    await tasks.refresh();
    const record = tasks.ofCall(session.id, idText);
    const upstream = record && this.upstreamOf(record);
    if (!upstream || calls.find((call) => call.matches(session.id, idText))) return undefined;
    return (sink) => creation.takeUp(record, upstream, headers, sink);
  }

  /** Returns the state of a core task for its modern client, which has subscribed to it with these headers. */
  async read(record: TaskRecord, headers: readonly string[]): Promise<TaskReading | undefined> {
    const upstream = this.upstreamOf(record);
    if (!upstream) return undefined;
    const sessions = () => () => taskSession(this.#options.tasks, record, upstream);
    return await this.#core.read({ record, upstream, headers, sessions });
  }

  async #translate(client: ClientFacts, message: RequestMessage, target: TaskTarget): Promise<RequestOutcome> {
    const observer = this.#options.toolCalls.request(client.facts);
    observer.send({ method: message.method, protocol: 'mcp', subject: undefined, server: target.upstream.server });
    const outcome =
      target.record.era === 'legacy'
        ? await this.#core.request(message, target)
        : await this.#extension.request(client, message, target, observer);
    if (outcome.kind === 'error') observer.failed('UNKNOWN', outcome.error.message, String(outcome.error.code));
    else if (outcome.kind === 'result') observer.responded({ result: {} });
    return outcome;
  }

  /**
   * Relays the input that the task waits for. Other input is ignored, as the extension says: an upstream might take an answer
   * that is sent twice for one to its next question.
   */
  async #update(client: ClientFacts, message: RequestMessage, target: TaskTarget): Promise<RequestOutcome> {
    const { tasks } = this.#options;
    const { inputResponses } = message.params;
    if (!isJsonObject(inputResponses)) return this.#relay(client, message, target);
    const keys = Object.keys(inputResponses);
    const isOpen = (key: string) => tasks.get(target.record.id)?.openKeys?.includes(key) === true;
    if (!keys.every(isOpen)) {
      // The client may know a later state than we do.
      const reading = await this.#extension.read(client, target);
      if (reading.kind === 'error') return reading;
    }
    const open = keys.filter(isOpen);
    if (open.length === 0 && keys.length > 0) return ACKNOWLEDGED;
    const member = message.paramMembers.find(({ key }) => key === 'inputResponses');
    const edits = member ? removeEdits(message.text, member.start, (key) => !open.includes(key)) : [];
    return this.#relay(client, message, target, edits, () => tasks.onAnswered(target.record, open));
  }

  #relay(
    client: ClientFacts,
    message: RequestMessage,
    { record, upstream, headers: copied, sessions }: TaskTarget,
    edits: readonly Edit[] = [],
    onAccepted: () => void = () => undefined,
  ): RequestOutcome {
    const { tasks } = this.#options;
    const { method } = message;
    const headers = [...copied, ...taskHeaders(record.era, method, record.upstreamId)];
    const observer = this.#options.toolCalls.request(client.facts);
    const trace = observer.send({ method, protocol: 'mcp', subject: undefined, server: upstream.server });
    const plan: CallPlan = {
      message,
      capabilities: client.capabilities,
      headers: trace ? withTrace(headers, trace) : headers,
      trace,
      upstream,
      edits: [...taskIdEdits(message, record), ...edits, ...(trace ? traceEdits(message, trace) : [])],
      progressToken: progressTokenOf(message),
      rewriter: new TaskRewriter(tasks, record, method, client.capabilities, onAccepted),
      needsTranslation: false,
      openSession: sessions(),
      failure: TASK_FAILURE,
      forward: record.forward,
      messages: record.era === 'legacy' ? this.#messages(client, record) : undefined,
      waitsForTask: method === 'tasks/result',
    };
    const start = (sink: ResponseSink) =>
      new RelayedCall(this.#options, plan, new ObservedSink(sink, observer)).start();
    return { kind: 'deferred', start };
  }

  /** Cancels a task of a legacy client. That it is canceled is durable before the response. */
  async #cancel(
    client: ClientFacts,
    message: RequestMessage,
    { record, upstream, headers, sessions }: TaskTarget,
  ): Promise<RequestOutcome> {
    const { tasks } = this.#options;
    const observer = this.#options.toolCalls.request(client.facts);
    observer.send({ method: message.method, protocol: 'mcp', subject: undefined, server: upstream.server });
    const edits = taskIdEdits(message, record);
    try {
      const session = await sessions()();
      const { text = '' } = await sendMessage(upstream.transport, {
        message: (id) => applyEdits(message.text, [...edits, { ...message.idRange, text: String(id) }]),
        method: message.method,
        sessionId: session.sessionId,
        headers: [...session.identityHeaders, ...headers],
        timeoutMs: CANCEL_TIMEOUT_MS,
      });
      const value = tryParseJson(text);
      if (!isJsonObject(value)) throw new Error('not a response');
      observer.responded(value);
      if (isJsonObject(value.error)) return errorOf(text, value.error);
      await tasks.cancel(record);
      const canceled = { ...record, isCanceled: true };
      const rewriter = new TaskRewriter(tasks, canceled, message.method, client.capabilities);
      const rewritten = rewriter.rewrite(text, value);
      const result = memberText(rewritten?.text ?? text, 'result');
      if (result !== undefined) return { kind: 'result', json: result };
      return errorOf(rewritten?.text ?? text, isJsonObject(rewritten?.value.error) ? rewritten.value.error : {});
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
      observer.failed('SERVICE_UNAVAILABLE', error.message, error.kind);
      return rpcError(INTERNAL_ERROR, `${TASK_FAILURE}: ${error.message}`);
    }
  }

  #messages({ namespace, principal }: ClientFacts, { address, session }: TaskRecord): TaskMessages {
    const isOwn = (other: TaskRecord) => other.namespace === namespace && other.principal.key === principal.key;
    return new TaskMessages(this.#options.tasks, { address, session: session?.id }, isOwn);
  }

  /**
   * Returns the function that selects the session of the request: that of the task, and if the upstream does not know it any
   * more, one that calls of the client are sent in. An upstream whose tasks do not depend on sessions still knows the task there.
   */
  #sessions(
    client: ClientFacts,
    record: TaskRecord,
    upstream: Upstream,
    headers: readonly string[],
  ): () => UpstreamSession | Promise<UpstreamSession> {
    const { tasks, sessions, clientInfo: serverInfo } = this.#options;
    let isRetry = false;
    return () => {
      if (!isRetry || record.era === 'modern') {
        isRetry = true;
        return taskSession(tasks, record, upstream);
      }
      if (client.era === 'legacy' && !client.session) {
        const what = 'no longer knows the session of the task';
        return Promise.reject(new UpstreamError('session-lost', upstream.transport.address, what));
      }
      const capabilities = legacyCapabilities(client.capabilities);
      const opened = legacySession(upstream, client, { ...sessions, serverInfo, capabilities, headers })();
      return Promise.resolve(opened).then((session) => {
        tasks.setSession(record, session);
        return session;
      });
    };
  }
}

/** The outcome for an id that is not that of a task of this owner: the same for all reasons. */
export function taskNotFound(): ErrorOutcome {
  return rpcError(INVALID_PARAMS, TASK_NOT_FOUND);
}

function errorOf(text: string, { code, message }: JsonObject): RequestOutcome {
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
