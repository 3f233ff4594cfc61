import type { IncomingHttpHeaders } from 'node:http';
import type { JsonObject } from '@sluice/protocol/json/parse';
import type { Era } from '@sluice/protocol/mcp/constants';
import type { Batch, Message } from '@sluice/protocol/mcp/message';
import type { AnswerTarget } from '../answer/answer-target.ts';
import type { ExchangeWatch } from '../proxy/exchange.ts';
import type { NamespaceState } from '../registry/snapshot.ts';
import type { ClientSession } from '../sessions/sessions.ts';
import type { RequestObservation } from '../telemetry/requests/request-observation.ts';
import { userOf } from '../telemetry/requests/user-of.ts';
import { type Correlation, correlationOf } from '../telemetry/tool-calls/correlation.ts';
import type { HeaderEdits } from './filters/headers.ts';

const NO_CAPABILITIES: JsonObject = {};

/**
 * One request on its way through a chain. The listener makes it; filters read it and fill in what they find out, each
 * the members that its comment names.
 */
export class RequestContext {
  readonly method: string;
  /** Path without query, as sent, or as `path_rewrite` has made it. */
  path: string;
  /** With its question mark; empty where there is none. */
  readonly query: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** Sees what becomes of it; undefined where nobody looks. */
  readonly observation: RequestObservation | undefined;
  /** True for a message of a batch: each goes through the chain as a request of its own. */
  readonly inBatch: boolean;
  /** String map that later filters and the log read: `mcp.method`, `service.namespace`, what actions set. */
  readonly metadata = new Map<string, string>();

  /** How the client speaks to the listener. Filled by the listener. */
  scheme: 'http' | 'https' = 'http';
  /** Closes when the client leaves, or has its answer. Filled by the listener. */
  client: Pick<AnswerTarget, 'on'> | undefined = undefined;
  /** Header names and values that every answer to this request carries. Filled by `cors`. */
  responseHeaders: readonly string[] = [];
  /** The parsed body of a POST. Filled by `mcp`. */
  message: Message | undefined = undefined;
  /** Set instead where the body is a batch: whether it may be sent is judged before any of its messages. Filled by `mcp`. */
  batch: Batch | undefined = undefined;
  /** Filled by `mcp`. */
  era: Era = 'legacy';
  /** As it stood when the request came in, or had been judged. Filled by `service_namespace`, `service_evaluator`. */
  namespace: NamespaceState | undefined = undefined;
  /** Of a legacy client that has one. Filled by `service_namespace`. */
  session: ClientSession | undefined = undefined;
  /** True where evaluators decide what the answer is: it is good for this time alone. Filled by `service_evaluator`. */
  judged = false;
  /** Names of the tools that `tools/list` is to show; undefined shows all. Filled by `service_evaluator`. */
  onlyTools: ReadonlySet<string> | undefined = undefined;
  /** What the client says it can do; a legacy client says it once per session. Filled by `service_mcp_init`. */
  capabilities: JsonObject = NO_CAPABILITIES;

  /** Names and values, alternating, of what the request is sent on with besides its own. Filled by `headers`. */
  addedHeaders: readonly string[] = [];
  /** What is done to the headers of every answer. Filled by `headers`. */
  headerEdits: readonly HeaderEdits[] = [];
  /** Where the request is to be sent. Filled by `router`. */
  cluster: string | undefined = undefined;
  /** Begins to record an exchange. Filled by `service_intercept`. */
  recording: (() => ExchangeWatch | undefined) | undefined = undefined;

  /** `target`: the path, and the query if there is one. */
  constructor(
    method: string,
    target: string,
    headers: IncomingHttpHeaders,
    body: Buffer,
    observation?: RequestObservation,
    inBatch = false,
  ) {
    const query = target.indexOf('?');
    this.method = method;
    this.path = query === -1 ? target : target.slice(0, query);
    this.query = query === -1 ? '' : target.slice(query);
    this.headers = headers;
    this.body = body;
    this.observation = observation;
    this.inBatch = inBatch;
    if (observation) observation.context = this;
  }

  /** The id to answer with, as the client spelled it. */
  get idText(): string {
    return this.message && this.message.kind !== 'notification' ? this.message.idText : 'null';
  }

  /** The ids by which others find the request again. */
  get correlation(): Correlation {
    return correlationOf(this.headers);
  }

  /** The user as the authenticating proxy passes it. */
  get user(): string | undefined {
    return userOf(this.headers);
  }
}
