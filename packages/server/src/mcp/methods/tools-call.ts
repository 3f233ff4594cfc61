import { type JsonObject, parseJson } from '@sluice/protocol/json/parse';
import { memberText } from '@sluice/protocol/json/text';
import { HEADER_MISMATCH, INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import { type RequestMessage, resultText } from '@sluice/protocol/mcp/message';
import { MirroredParams, readParamHeaders } from '@sluice/protocol/mcp/param-headers';
import type { Access, Permit } from '../../access/access.ts';
import { rpcError } from '../../http/outcome.ts';
import { type Entry, type EntryVariant, FORWARD_TYPE, TASK_LABEL } from '../../registry/entries.ts';
import type { Registry } from '../../registry/registry.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import { OversizedIdWarner } from '../../telemetry/oversized-ids.ts';
import { boundedSubject } from '../../telemetry/redaction.ts';
import { toolCallIdentity } from '../../telemetry/tool-calls/event.ts';
import type { ToolCallSink } from '../../telemetry/tool-calls/events.ts';
import type { Caller, CallOutcome } from '../../upstreams/downstream.ts';
import type { GrpcBridge } from '../../upstreams/grpc/bridge.ts';
import { serviceNotFoundMessage } from '../../upstreams/grpc/channels.ts';
import type { Forwards } from '../../upstreams/mcp/forwards.ts';
import { CancelableRequest, type InFlightCall, type InFlightCalls } from '../../upstreams/mcp/relay/in-flight-calls.ts';
import type { CallRouter } from '../../upstreams/mcp/relay/router.ts';
import type { AutoCall } from '../../upstreams/mcp/tasks/auto-task.ts';
import type { AutoTasks } from '../../upstreams/mcp/tasks/auto-tasks.ts';
import type { ClientProfiles } from '../client-profile.ts';
import type { McpExchange, McpFilter, McpMethodFilter, McpOutcome } from '../exchange.ts';

/** Dependencies of {@link serviceToolCall}. */
interface ToolCallParts {
  readonly access: Access;
  readonly relay: CallRouter;
  readonly bridge: Pick<GrpcBridge, 'tool'>;
  readonly forwards: Pick<Forwards, 'ensureEraKnown' | 'upstream'>;
  readonly calls: InFlightCalls<InFlightCall>;
  readonly registry: Pick<Registry, 'current'>;
  readonly autoTasks: AutoTasks;
  readonly profiles: ClientProfiles;
  readonly toolCalls: ToolCallSink;
  readonly log: TargetLogger;
}

/**
 * `tools/call`: finds the tool, compares the headers of a modern client with the arguments that the tool mirrors in headers,
 * and dispatches the call to its executor.
 */
export function serviceToolCall(parts: ToolCallParts): McpMethodFilter {
  const { access, profiles, log } = parts;
  const declaredParams = new DeclaredParams(profiles);
  const oversizedIds = new OversizedIdWarner(log);
  const dispatch = dispatcher(parts, declaredParams);
  const filter: McpFilter = (exchange) => {
    const { message, namespace } = exchange;
    if (message?.kind !== 'request' || !namespace) return undefined;
    const target = access.resolve(namespace, message);
    if (target?.kind !== 'target') return target;
    const { entry: tool } = target;
    if (!tool) return undefined;
    const declared = exchange.era === 'modern' ? declaredParams.of(tool) : undefined;
    const problem = declared?.visibleTo(exchange.capabilities)?.problem(message, exchange.headers);
    if (problem !== undefined) {
      return rpcError(HEADER_MISMATCH, `tool ${quoted(String(message.params.name))}: ${problem}`, 400);
    }
    exchange.facts.subject = boundedSubject({ kind: 'tool', name: tool.name });
    const { oversizedHeader } = exchange.correlation;
    if (oversizedHeader !== undefined) oversizedIds.warn(oversizedHeader, tool.key);
    return dispatch(exchange, access.decide(exchange.principal, target));
  };
  return { methods: ['tools/call'], filter, findMissing: (exchange) => access.findMissing(exchange) };
}

/** Returns the function that sends a call to its executor: the upstream of its forward, a service, or the server that it names. */
function dispatcher(parts: ToolCallParts, declaredParams: DeclaredParams) {
  const { access, relay, bridge, forwards, calls, registry, toolCalls } = parts;
  const relayCall = (caller: Caller, permit: Permit): CallOutcome => {
    const { entry } = permit.target;
    return relay.call(caller, permit, entry && declaredParams.of(entry)?.expectedByUpstream(caller.capabilities));
  };
  /** Undefined if the server that a tool names is to be called. */
  const execute = (caller: Caller, permit: Permit): CallOutcome | undefined => {
    const { forward, address, entry } = permit.target;
    if (forward !== undefined) return relayCall(caller, permit);
    const outcome = bridge.tool(caller, permit);
    return outcome || !entry || address !== undefined ? outcome : failUnexecutable(caller, entry, toolCalls);
  };
  /** Another round of a call that has become a task. */
  const repeat = (caller: Caller, message: RequestMessage): CallOutcome => {
    const { name = '' } = caller.namespace ?? {};
    const namespace = registry.current.namespace(name);
    const target = namespace && access.resolve(namespace, message);
    if (target?.kind !== 'target') return target ?? rpcError(INVALID_PARAMS, `namespace not found: ${name}`);
    const permit = access.decide(caller.principal, target);
    return execute(caller, permit) ?? relayCall(caller, permit);
  };
  const asAutoTask = autoTaskWrapper(parts, repeat);
  const dispatch = (exchange: McpExchange, permit: Permit): McpOutcome | Promise<McpOutcome | undefined> => {
    const outcome = execute(exchange, permit);
    if (outcome) return asAutoTask(exchange, permit, outcome);
    const eraDetection = forwards.ensureEraKnown(permit.target.address ?? '');
    const call = () => asAutoTask(exchange, permit, relayCall(exchange, permit));
    if (!eraDetection) return call();
    // During the detection, the client can cancel the request like a call, and an operator can change the tool.
    const request = new CancelableRequest(exchange, calls);
    const proceed = () => {
      const renewed = permit.renew();
      if (renewed.kind === 'error') return renewed;
      return renewed === permit ? call() : dispatch(exchange, renewed);
    };
    return request.outcome(eraDetection.then(() => (request.signal.aborted ? undefined : proceed())));
  };
  return dispatch;
}

/**
 * Makes calls of tools with the label `service.task=auto` ready to become tasks. The function returns the outcome of a call
 * that becomes a task if it takes long; unchanged for most tools.
 */
function autoTaskWrapper({ autoTasks, forwards }: ToolCallParts, repeat: AutoCall['repeat']) {
  return (caller: Caller, { message, target: { entry: tool, forward } }: Permit, outcome: CallOutcome): CallOutcome => {
    if (tool?.labels[TASK_LABEL] !== 'auto') return outcome;
    const upstream = forward === undefined ? undefined : forwards.upstream(forward);
    // That decides itself.
    if (upstream?.taskEras.has('modern')) return outcome;
    const address = upstream?.transport.address ?? String(tool.members.uri);
    return autoTasks.wrap({ caller, message, repeat }, { tool, address, forward }, outcome);
  };
}

/** A name as the client sent it, short enough to be repeated to it. */
function quoted(name: string): string {
  return JSON.stringify(name.slice(0, 100));
}

/** Response to, and record of, a call without an executor (decisions 4.7 "Dispatch" 5, 6). */
function failUnexecutable(caller: Caller, tool: Entry, toolCalls: ToolCallSink): CallOutcome {
  const { toolType, uri } = tool.members;
  let text: string;
  if (toolType === FORWARD_TYPE || /^https?:/.test(String(uri))) {
    text = `tool ${tool.name}: its uri must be an http:// or https:// address`;
    toolCalls
      .of(toolCallIdentity(caller, tool, { transport: 'mcp' }), caller.facts)
      .failed('TOOL_DEFINITION_ERROR', text);
  } else {
    text = serviceNotFoundMessage(String(toolType));
    toolCalls
      .of(toolCallIdentity(caller, tool, { transport: 'grpc' }), caller.facts)
      .failed('SERVICE_UNAVAILABLE', text);
  }
  return { kind: 'result', json: resultText(caller.era, { content: [{ type: 'text', text }], isError: true }) };
}

/** Declarations of one variant of a tool; `params` is undefined for most tools, which have none. */
interface Declaration {
  readonly catalogs: EntryVariant['catalogs'];
  readonly params: MirroredParams | undefined;
}

/**
 * Declarations of a tool: as clients see them and as the upstream lists them, which differ after an override. Those of the
 * variant for the client's capabilities apply.
 */
class ToolDeclarations {
  readonly #forward: string | undefined;
  readonly #declarations: readonly Declaration[];
  readonly #upstream: readonly Declaration[];
  readonly #profiles: ClientProfiles;

  constructor({ rendered, discovered }: Entry, profiles: ClientProfiles) {
    this.#forward = discovered?.forward;
    this.#declarations = rendered.map(declarationOf);
    this.#upstream = discovered ? discovered.variants.map(declarationOf) : this.#declarations;
    this.#profiles = profiles;
  }

  /** True if no variant declares anything. */
  get isEmpty(): boolean {
    return [...this.#declarations, ...this.#upstream].every(({ params }) => params === undefined);
  }

  /** The declarations that a modern client with these capabilities sees, if any. */
  visibleTo(capabilities: JsonObject): MirroredParams | undefined {
    const catalog = this.#catalog(capabilities);
    if (catalog === undefined) return this.#declarations[0]?.params;
    return this.#declarations.find((one) => isListed(one, catalog))?.params;
  }

  /**
   * The declarations that the upstream expects of a modern call, if any: of its modern variant for these capabilities, else
   * of any modern variant, else of any.
   */
  expectedByUpstream(capabilities: JsonObject): MirroredParams | undefined {
    const catalog = this.#catalog(capabilities);
    const variant =
      this.#upstream.find((one) => catalog !== undefined && isListed(one, catalog)) ??
      this.#upstream.find(isModern) ??
      this.#upstream[0];
    return variant?.params;
  }

  /** Key of the forward's catalog for a modern client. */
  #catalog(capabilities: JsonObject): string | undefined {
    if (this.#forward === undefined) return undefined;
    return this.#profiles.of('modern', capabilities).view.choose(this.#forward)?.key;
  }
}

/** The `x-mcp-header` declarations of tools (mcp 4), read once per entry: entries are immutable. */
class DeclaredParams {
  readonly #profiles: ClientProfiles;
  readonly #declared = new WeakMap<Entry, ToolDeclarations | 'none'>();

  constructor(profiles: ClientProfiles) {
    this.#profiles = profiles;
  }

  /** The declarations of a tool; undefined for most tools, which have none. */
  of(tool: Entry): ToolDeclarations | undefined {
    let declared = this.#declared.get(tool);
    if (declared === undefined) {
      const read = new ToolDeclarations(tool, this.#profiles);
      declared = read.isEmpty ? 'none' : read;
      this.#declared.set(tool, declared);
    }
    return declared === 'none' ? undefined : declared;
  }
}

function isListed({ catalogs }: Declaration, catalog: string): boolean {
  return !catalogs || catalogs.includes(catalog);
}

function isModern({ catalogs }: Declaration): boolean {
  return !catalogs || catalogs.some((key) => key.startsWith('modern:'));
}

function declarationOf({ json, catalogs }: EntryVariant): Declaration {
  // The key may contain escapes; few tools have either.
  if (!json.includes('x-mcp-header') && !json.includes('\\u')) return { catalogs, params: undefined };
  const declared = readParamHeaders(parseJson(memberText(json, 'inputSchema') ?? 'null'));
  const none = !declared.valid || declared.headers.length === 0;
  return { catalogs, params: none ? undefined : new MirroredParams(declared.headers) };
}
