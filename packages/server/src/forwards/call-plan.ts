import type { Edit } from '@sluice/protocol/json/edit';
import type { JsonObject, JsonValue } from '@sluice/protocol/json/parse';
import type { Era } from '@sluice/protocol/mcp/constants';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import type { LiveSessions } from '../sessions/live-sessions.ts';
import type { ClientSession, ClientSessions } from '../sessions/sessions.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import type { TraceContext } from '../telemetry/tracing/trace-context.ts';
import type { CallUnderWay } from './call-under-way.ts';
import type { CallWatch } from './call-watch.ts';
import type { CallsUnderWay } from './calls-under-way.ts';
import type { LinkedResources } from './linked-resources.ts';
import type { UpstreamLink } from './links.ts';
import type { QuestionSink, Questions } from './questions.ts';
import type { Upstream } from './upstream.ts';

/** What all calls share. */
export interface CallParts {
  readonly calls: CallsUnderWay<CallUnderWay>;
  readonly lives: LiveSessions;
  readonly sessions: ClientSessions;
  readonly linkedResources: LinkedResources;
  /** Bound on an answer that must be held whole, in bytes. */
  readonly maxResponseBytes: number;
  readonly log: TargetLogger;
}

/** A client's request, as far as a retry of it may differ. */
export interface CallAttempt {
  readonly message: RequestMessage;
  /** What the client can do. */
  readonly capabilities: JsonObject;
  /** Headers besides the link's own. */
  readonly headers: readonly string[];
  /** Whether the client said that it reads event streams, and whether it said so of JSON. */
  readonly streams: boolean;
  readonly json: boolean;
}

/** A response as text and parsed. */
export interface Rewritten {
  readonly text: string;
  readonly value: JsonObject;
}

/** Changes answers for their client. */
export interface AnswerRewriting {
  /** The upstream was told that the client cannot be asked this. */
  refused(method: string, params: JsonValue | undefined): void;
  /**
   * A response with the client's id, as text and parsed, in the form in which the client is to have it. Undefined when that
   * is the one it has.
   */
  rewrite(text: string, value: JsonObject): Rewritten | undefined;
}

/** Everything about one call that is known before it is sent. */
export interface CallPlan extends CallAttempt {
  readonly upstream: Upstream;
  /** Where the call stands in a trace; undefined where no traces are exported. */
  readonly trace: TraceContext | undefined;
  /** Replacements in the message's text besides id and progress token: the upstream's own name for what is called. */
  readonly edits: readonly Edit[];
  /** Undefined where answers are passed on as they are. */
  readonly rewriting: AnswerRewriting | undefined;
  /** True where client and upstream are of different eras. */
  readonly crosses: boolean;
  /** How a client can be asked something that has no session: its call is parked. */
  readonly questions: ((sink: QuestionSink) => Questions) | undefined;
  /** Where the client's progress token stands in the text; undefined when it wants no progress. */
  readonly progressToken: Edit | undefined;
  /** The link to send on, asked for again after the upstream has forgotten its session. */
  link(): UpstreamLink | Promise<UpstreamLink>;
  /** Is told how it goes; undefined where nobody is to be. */
  readonly watch: CallWatch | undefined;
  /** What failures are called: `forwarded tool call failed`. */
  readonly failure: string;
  /** The client's; its leaving ends a modern call and not a legacy one (mcp 1). */
  readonly era: Era;
  /** The client's session, when it has one. */
  readonly session: ClientSession | undefined;
  /** The forward that answers; undefined for an upstream that is none. */
  readonly forward: string | undefined;
  readonly namespace: string | undefined;
}
