import type { Attributes } from '@opentelemetry/api';
import { MCP_METHODS } from '../metrics/mcp-methods.ts';
import type { RequestMetrics } from '../metrics/request-metrics.ts';
import { serverAddress } from '../metrics/server-address.ts';
import type { CommonAttributes } from '../tracing/common-attributes.ts';
import type { Span } from '../tracing/span.ts';
import type { TraceContext } from '../tracing/trace-context.ts';
import type { RequestObservation, Subject } from './request-observation.ts';
import { subjectAttributes } from './server-span.ts';
import { toldMethod, toldSubject } from './told-names.ts';

/** What is asked of whom. */
export interface Asked {
  /** A method of MCP, or the full name of one of gRPC. */
  readonly method: string;
  readonly protocol: 'mcp' | 'grpc';
  /** What it is about, under the name that the one who is asked has for it. */
  readonly subject: Subject | undefined;
  /** `host:port`. */
  readonly server: string;
}

/** What a tool that says itself that it failed is called (OpenTelemetry's conventions for MCP, `error.type`). */
export const TOOL_ERROR = 'tool_error';

const CODE = /^-?\d+$/;

/** One request of ours to somebody who carries out what a client has asked for: an upstream MCP server, a service. */
export class OutgoingCall {
  readonly #observation: RequestObservation;
  readonly #metrics: RequestMetrics;
  readonly #asked: Asked;
  readonly #subject: Subject | undefined;
  readonly #span: Span | undefined;
  readonly #startedAt = performance.now();
  #over = false;

  /** `observation`: of the request that it is for. */
  constructor(observation: RequestObservation, metrics: RequestMetrics, asked: Asked, attributes: CommonAttributes) {
    this.#observation = observation;
    this.#metrics = metrics;
    this.#asked = asked;
    const subject = asked.subject && toldSubject(asked.subject);
    this.#subject = subject;
    const span = observation.span?.child({ name: nameOf(asked, subject), role: 'client' });
    if (span?.recorded) span.common = commonOf(asked, subject, attributes);
    this.#span = span;
  }

  /** Goes along, so that the other side goes on with the trace. */
  get trace(): TraceContext | undefined {
    return this.#span?.context;
  }

  /** It is over, once; `errorType` as OpenTelemetry's `error.type`, where it failed. */
  end(errorType?: string): void {
    if (this.#over) return;
    this.#over = true;
    if (errorType === TOOL_ERROR) this.#observation.failure = TOOL_ERROR;
    const now = performance.now();
    const { method, protocol, server } = this.#asked;
    const subject = this.#subject;
    const seconds = (now - this.#startedAt) / 1000;
    if (protocol === 'grpc') this.#metrics.rpcClient({ method, server, errorType, seconds });
    else {
      this.#metrics.mcpClient({
        method,
        tool: subject?.kind === 'tool' ? subject.name : undefined,
        prompt: subject?.kind === 'prompt' ? subject.name : undefined,
        server,
        errorType,
        seconds,
      });
    }
    if (!this.#span) return;
    if (errorType !== undefined) {
      // Of MCP only the code of a JSON-RPC error is a number.
      if (protocol === 'mcp' && CODE.test(errorType)) this.#span.own['rpc.response.status_code'] = errorType;
      this.#span.failed(errorType);
    }
    this.#span.end(now);
  }
}

function nameOf({ method, protocol }: Asked, subject: Subject | undefined): string {
  return protocol === 'mcp' && subject ? `${method} ${subject.name}` : toldMethod(method);
}

/** OpenTelemetry's conventions for MCP ("Client"), and for gRPC. */
function commonOf(
  { method, protocol, server }: Asked,
  subject: Subject | undefined,
  attributes: CommonAttributes,
): Attributes {
  // No two may have one key: of what clients make up none is remembered.
  const known = protocol === 'grpc' || MCP_METHODS.has(method);
  const key = known ? `${server} ${method} ${subject?.kind} ${subject?.name}` : undefined;
  return attributes.get(key, () => ({
    ...serverAddress(server),
    ...(protocol === 'mcp'
      ? { 'mcp.method.name': toldMethod(method), 'network.protocol.name': 'http' }
      : { 'rpc.system.name': 'grpc', 'rpc.method': method }),
    'network.transport': 'tcp',
    ...(subject && subjectAttributes(subject)),
  }));
}
