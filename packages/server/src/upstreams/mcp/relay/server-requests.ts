import { applyEdits, type Edit } from '@sluice/protocol/json/edit';
import type { JsonObject, JsonValue } from '@sluice/protocol/json/parse';
import { members, memberText } from '@sluice/protocol/json/scan';
import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import { paramText, progressTokenText, type ResponseMessage, refusalOf, withParam } from '@sluice/protocol/mcp/message';
import type { ActiveSession, Question } from '../../../mcp/sessions/live-sessions.ts';
import { Refusals } from './request-rewrite.ts';

/** Requests of an upstream that are refused on one call before the call is given up. */
const MAX_REFUSED = 16;

/** What the requests of one call's upstream lead to. */
export interface RequestRoute extends ServerRequestSink {
  /** The upstream goes on asking: it is not serious. */
  tooMany(): void;
}

/** What an upstream asks on one call: it goes to the client, where that can be asked, and is refused otherwise. */
export class UpstreamRequests {
  readonly #questions: ServerRequests | undefined;
  readonly #route: RequestRoute;
  readonly #pings: Refusals;
  #refused = 0;

  /** `questions` where the client can be asked. */
  constructor(questions: ServerRequests | undefined, route: RequestRoute) {
    this.#questions = questions;
    this.#route = route;
    this.#pings = new Refusals((answer) => route.deliver(answer));
  }

  /** How many questions wait for the client. */
  get open(): number {
    return this.#questions?.open ?? 0;
  }

  /** Takes a request, as text and parsed. `gone`: the client is not there any more. */
  take(text: string, value: JsonObject, gone: boolean): void {
    if (gone || !this.#questions?.ask(text, value)) this.#refuse(text, value);
  }

  /** The upstream takes a request back, in this `notifications/cancelled`. */
  takenBack(text: string): void {
    this.#questions?.takenBack(text);
  }

  /** Nobody waits for the answers any more. */
  withdrawAll(): void {
    this.#questions?.withdrawAll();
  }

  /** Nobody will answer any more. */
  abandonAll(): void {
    this.#questions?.abandonAll();
  }

  #refuse(text: string, { method, params }: JsonObject): void {
    // Whoever waits long may ping for as long.
    if (method === 'ping') return this.#pings.refuse(text, method);
    if (typeof method === 'string') this.#route.refused(method, params);
    if (++this.#refused > MAX_REFUSED) return this.#route.tooMany();
    this.#route.deliver(refusalOf(text, method)).catch(() => undefined);
  }
}

/** Questions that one call, or one upstream session, may have open at a time. */
export const MAX_OPEN_REQUESTS = 32;

/** Where questions come from and go to. */
export interface QuestionRoute {
  /** The client's session, as it is when a question comes. */
  live(): ActiveSession;
  /** Sends the client a message, on the stream that the questions belong to. */
  send(text: string): void;
  /** Sends the upstream a message; resolves when it has taken it, rejects with `UpstreamError`. */
  deliver(text: string): Promise<void>;
}

/** What an upstream has asked the client of one call, or of one session, and waits to be answered. */
export interface ServerRequests {
  /** How many wait for the client. */
  readonly open: number;
  /**
   * Asks the client; `text` is the upstream's request, `value` the same parsed. False when it cannot be asked, or too many
   * questions are open.
   */
  ask(text: string, value: JsonObject): boolean;
  /** The upstream takes a question back, in this `notifications/cancelled`. */
  takenBack(text: string): void;
  /** Nobody waits for the answers any more. */
  withdrawAll(): void;
  /** Nobody will answer any more. */
  abandonAll(): void;
}

/** Where a call's upstream is given answers. */
export interface ServerRequestSink {
  /** The client cannot be asked this, and the upstream is told so. */
  refused(method: string, params: JsonValue | undefined): void;
  /** Sends the upstream a message; resolves when it has taken it, rejects with `UpstreamError`. */
  deliver(text: string): Promise<void>;
  /** Ends the call: the upstream cannot be given what it waits for. */
  fail(error: unknown): void;
}

interface OpenQuestion extends Question {
  readonly live: ActiveSession;
  /** The upstream's own id, as JSON text. */
  readonly upstreamId: string;
}

/**
 * The requests that an upstream sends to one client (sampling, elicitation, roots, ping and whatever else), from one
 * call's stream or from a session's notification stream: each goes out under an id of ours and its answer comes back
 * under the upstream's (mcp 4). An answer counts only from the session that was asked.
 */
export class UpstreamServerRequests implements ServerRequests {
  readonly #route: QuestionRoute;
  readonly #open = new Set<OpenQuestion>();

  constructor(route: QuestionRoute) {
    this.#route = route;
  }

  get open(): number {
    return this.#open.size;
  }

  ask(text: string): boolean {
    if (this.#open.size >= MAX_OPEN_REQUESTS) return false;
    const live = this.#route.live();
    const token = progressTokenText(text);
    const question = live.ask((idText) => {
      const asked: OpenQuestion = {
        idText,
        live,
        upstreamId: memberText(text, 'id') ?? 'null',
        answered: (answer) => this.#answered(asked, answer),
        progressed: (progress) => {
          if (token !== undefined) this.#deliver(withParam(progress, 'progressToken', token));
        },
        abandoned: () => this.#abandoned(asked),
      };
      this.#open.add(asked);
      return asked;
    });
    this.#route.send(asAskedBy(text, question.idText));
    return true;
  }

  /** Passed on when the question is open. */
  takenBack(text: string): void {
    const requestId = paramText(text, 'requestId');
    for (const question of this.#open) {
      if (question.upstreamId !== requestId) continue;
      this.#withdraw(question);
      this.#route.send(withParam(text, 'requestId', question.idText));
    }
  }

  /** The client is told so. */
  withdrawAll(): void {
    for (const question of this.#open) {
      this.#withdraw(question);
      const params = `{"requestId":${question.idText},"reason":"the request that caused it has ended"}`;
      this.#route.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`);
    }
  }

  /** The upstream is told so. */
  abandonAll(): void {
    for (const question of this.#open) {
      question.live.withdraw(question);
      this.#abandoned(question);
    }
  }

  #abandoned(question: OpenQuestion): void {
    this.#open.delete(question);
    const error = `{"code":${INTERNAL_ERROR},"message":"the client has left without an answer"}`;
    this.#deliver(`{"jsonrpc":"2.0","id":${question.upstreamId},"error":${error}}`);
  }

  #answered(question: OpenQuestion, { text, idRange }: ResponseMessage): Promise<void> {
    this.#open.delete(question);
    return this.#route.deliver(applyEdits(text, [{ ...idRange, text: question.upstreamId }]));
  }

  #withdraw(question: OpenQuestion): void {
    this.#open.delete(question);
    question.live.withdraw(question);
  }

  /** Sends what may be lost: nobody is told when it is. */
  #deliver(text: string): void {
    this.#route.deliver(text).catch(() => undefined);
  }
}

/** The request with our id, which is also what the client is to report progress under. */
function asAskedBy(text: string, idText: string): string {
  const edits: Edit[] = [];
  for (const { key, start, end } of members(text)) {
    if (key === 'id') edits.push({ start, end, text: idText });
    if (key !== 'params') continue;
    for (const param of members(text, start)) {
      if (param.key !== '_meta') continue;
      for (const meta of members(text, param.start)) {
        if (meta.key === 'progressToken') edits.push({ start: meta.start, end: meta.end, text: idText });
      }
    }
  }
  return applyEdits(text, edits);
}
