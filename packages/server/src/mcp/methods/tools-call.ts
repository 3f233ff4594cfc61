import { type JsonObject, parseJson } from '@sluice/protocol/json/parse';
import { memberText } from '@sluice/protocol/json/text';
import { HEADER_MISMATCH, INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import { type RequestMessage, resultText } from '@sluice/protocol/mcp/message';
import { MirroredParams, readParamHeaders } from '@sluice/protocol/mcp/param-headers';
import type { Access, Permit } from '../../access/access.ts';
import type { Target } from '../../access/target.ts';
import { type ErrorOutcome, rpcError } from '../../http/outcome.ts';
import { type Entry, type EntryVariant, FORWARD_TYPE, TASK_LABEL } from '../../registry/entries.ts';
import type { Registry } from '../../registry/registry.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import { OversizedIdWarner } from '../../telemetry/oversized-ids.ts';
import { boundedSubject } from '../../telemetry/redaction.ts';
import { toolCallIdentity } from '../../telemetry/tool-calls/event.ts';
import type { ToolCallSink } from '../../telemetry/tool-calls/events.ts';
import type { ClientFacts } from '../../upstreams/client-facts.ts';
import type { RequestOutcome } from '../../upstreams/deferred-outcome.ts';
import type { GrpcBridge } from '../../upstreams/grpc/bridge.ts';
import { serviceNotFoundMessage } from '../../upstreams/grpc/channels.ts';
import type { Forwards } from '../../upstreams/mcp/forwards.ts';
import { CancelableRequest, type InFlightCall, type InFlightCalls } from '../../upstreams/mcp/relay/in-flight-calls.ts';
import type { CallRouter } from '../../upstreams/mcp/relay/router.ts';
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
  const check: CheckTool = (exchange, { entry: tool, message }) => {
    if (!tool) return undefined;
    const declared = exchange.era === 'modern' ? declaredParams.visibleTo(tool, exchange.capabilities) : undefined;
    const problem = declared?.problem(message, exchange.headers);
    if (problem !== undefined) {
      return rpcError(HEADER_MISMATCH, `tool ${JSON.stringify(tool.key.slice(0, 100))}: ${problem}`, 400);
    }
    exchange.facts.subject = boundedSubject({ kind: 'tool', name: tool.name });
    return undefined;
  };
  const dispatch = dispatcher(parts, declaredParams, check);
  const filter: McpFilter = (exchange) => {
    const { message, namespace, correlation } = exchange;
    if (message?.kind !== 'request' || !namespace) return undefined;
    const target = access.resolve(namespace, message);
    if (target?.kind !== 'target') return target;
    const problem = check(exchange, target);
    if (problem) return problem;
    const { oversizedHeader } = correlation;
    if (oversizedHeader !== undefined) oversizedIds.warn(oversizedHeader, target.entry?.key ?? '');
    return dispatch(exchange, access.decide(exchange.principal, target));
  };
  return { methods: ['tools/call'], filter, findMissing: (exchange) => access.findMissing(exchange) };
}

/** Checks a request against what its tool declares: of a renewed permit, again. Names the tool in the facts. */
type CheckTool = (exchange: McpExchange, target: Target) => ErrorOutcome | undefined;

/** Returns the function that sends a call to its executor: the upstream of its forward, a service, or the server that it names. */
function dispatcher(parts: ToolCallParts, declaredParams: DeclaredParams, check: CheckTool) {
  const { access, relay, bridge, forwards, calls, registry, toolCalls, autoTasks } = parts;
  const relayCall = (client: ClientFacts, permit: Permit): RequestOutcome => {
    const { entry } = permit.target;
    return relay.call(client, permit, entry && declaredParams.expectedByUpstream(entry, client.capabilities));
  };
  /** Undefined if the server that a tool names is to be called. */
  const execute = (client: ClientFacts, permit: Permit): RequestOutcome | undefined => {
    const { forward, address, entry } = permit.target;
    if (forward !== undefined) return relayCall(client, permit);
    const outcome = bridge.tool(client, permit);
    return outcome || !entry || address !== undefined ? outcome : failUnexecutable(client, entry, toolCalls);
  };
  /** Another round of a call that has become a task. */
  const repeat = (client: ClientFacts, message: RequestMessage): RequestOutcome => {
    const { namespace: name = '' } = client;
    const namespace = registry.current.namespace(name);
    const target = namespace && access.resolve(namespace, message);
    if (target?.kind !== 'target') return target ?? rpcError(INVALID_PARAMS, `namespace not found: ${name}`);
    const permit = access.decide(client.principal, target);
    return execute(client, permit) ?? relayCall(client, permit);
  };
  /** A call of a tool with the label `service.task=auto` becomes a task if it takes long. */
  const asAutoTask = (client: ClientFacts, { message, target }: Permit, outcome: RequestOutcome): RequestOutcome => {
    const { entry: tool, forward } = target;
    if (tool?.labels[TASK_LABEL] !== 'auto') return outcome;
    const upstream = forward === undefined ? undefined : forwards.upstream(forward);
    // That decides itself.
    if (upstream?.taskEras.has('modern')) return outcome;
    const address = upstream?.transport.address ?? String(tool.members.uri);
    return autoTasks.wrap({ client, target: { tool, address, forward }, message, repeat }, outcome);
  };
  const dispatch = (exchange: McpExchange, permit: Permit): RequestOutcome | AwaitedEra => {
    const client = relay.clientOf(exchange, permit.target.entry);
    const outcome = execute(client, permit);
    if (outcome) return asAutoTask(client, permit, outcome);
    const era = forwards.ensureEraKnown(permit.target.address ?? '');
    const send = () => asAutoTask(client, permit, relayCall(client, permit));
    return era ? { kind: 'awaited', era, permit, send } : send();
  };
  /** Meanwhile an operator can change the tool: then the call is checked again. */
  const dispatchLater = async (exchange: McpExchange, awaited: AwaitedEra, signal: AbortSignal) => {
    for (let { era, permit, send } = awaited; ; ) {
      await era;
      if (signal.aborted) return undefined;
      const renewed = permit.renew();
      if (renewed.kind === 'error') return renewed;
      if (renewed === permit) return send();
      const problem = check(exchange, renewed.target);
      if (problem) return problem;
      const next = dispatch(exchange, renewed);
      if (next.kind !== 'awaited') return next;
      ({ era, permit, send } = next);
    }
  };
  return (exchange: McpExchange, permit: Permit): McpOutcome | Promise<McpOutcome | undefined> => {
    const dispatched = dispatch(exchange, permit);
    if (dispatched.kind !== 'awaited') return dispatched;
    // Meanwhile the client can cancel the request like a call.
    const request = new CancelableRequest(exchange, calls);
    return request.outcome(dispatchLater(exchange, dispatched, request.signal));
  };
}

/** A call of a server whose era is not known yet. */
interface AwaitedEra {
  readonly kind: 'awaited';
  readonly era: Promise<void>;
  readonly permit: Permit;
  readonly send: () => RequestOutcome;
}

/** Response to, and record of, a call without an executor. */
function failUnexecutable(client: ClientFacts, tool: Entry, toolCalls: ToolCallSink): RequestOutcome {
  const { toolType, uri } = tool.members;
  const isMcp = toolType === FORWARD_TYPE || /^https?:/.test(String(uri));
  const text = isMcp
    ? `tool ${tool.name}: its uri must be an http:// or https:// address`
    : serviceNotFoundMessage(String(toolType));
  const identity = toolCallIdentity(client, tool, { transport: isMcp ? 'mcp' : 'grpc' });
  toolCalls.of(identity, client.facts).failed(isMcp ? 'TOOL_DEFINITION_ERROR' : 'SERVICE_UNAVAILABLE', text);
  return { kind: 'result', json: resultText(client.era, { content: [{ type: 'text', text }], isError: true }) };
}

/** Declarations of one variant of a tool; `params` is undefined for most tools, which have none. */
interface Declaration {
  readonly catalogs: EntryVariant['catalogs'];
  readonly params: MirroredParams | undefined;
}

/** Declarations of a tool as clients see them and as the upstream lists them, which differ after an override. */
interface ToolDeclarations {
  readonly visible: readonly Declaration[];
  readonly upstream: readonly Declaration[];
}

/** Of most tools. */
const NO_DECLARATIONS: ToolDeclarations = { visible: [], upstream: [] };

/**
 * The `x-mcp-header` declarations of tools, read once per entry: entries are immutable. Those of the variant for the client's
 * capabilities apply.
 */
class DeclaredParams {
  readonly #profiles: ClientProfiles;
  readonly #declared = new WeakMap<Entry, ToolDeclarations>();

  constructor(profiles: ClientProfiles) {
    this.#profiles = profiles;
  }

  /** The declarations that a modern client with these capabilities sees, if any. */
  visibleTo(tool: Entry, capabilities: JsonObject): MirroredParams | undefined {
    const { visible } = this.#of(tool);
    if (visible.length === 0) return undefined;
    const catalog = this.#catalog(tool, capabilities);
    return (catalog === undefined ? visible[0] : visible.find((one) => isListed(one, catalog)))?.params;
  }

  /**
   * The declarations that the upstream expects of a modern call, if any: of its modern variant for these capabilities, else
   * of any modern variant, else of any.
   */
  expectedByUpstream(tool: Entry, capabilities: JsonObject): MirroredParams | undefined {
    const { upstream } = this.#of(tool);
    if (upstream.length === 0) return undefined;
    const catalog = this.#catalog(tool, capabilities);
    const own = catalog === undefined ? undefined : upstream.find((one) => isListed(one, catalog));
    return (own ?? upstream.find(isModern) ?? upstream[0])?.params;
  }

  #of(tool: Entry): ToolDeclarations {
    const known = this.#declared.get(tool);
    if (known) return known;
    const visible = tool.rendered.map(declarationOf);
    const upstream = tool.discovered?.variants.map(declarationOf) ?? visible;
    const hasAny = [...visible, ...upstream].some(({ params }) => params !== undefined);
    const declared = hasAny ? { visible, upstream } : NO_DECLARATIONS;
    this.#declared.set(tool, declared);
    return declared;
  }

  /** Key of the forward's catalog for a modern client. */
  #catalog({ discovered }: Entry, capabilities: JsonObject): string | undefined {
    return discovered && this.#profiles.of('modern', capabilities).view.choose(discovered.forward)?.key;
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
