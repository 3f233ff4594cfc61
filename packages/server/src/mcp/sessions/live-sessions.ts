import type { ResponseMessage } from '@sluice/protocol/mcp/message';
import type { ClientStream, EventStore } from './resumable-streams.ts';

/** A request that an upstream has sent to the client, and that waits for the client's answer (mcp 4). */
export interface Question {
  /** JSON text of the id that the client knows it by; also the progress token that it is told. */
  readonly idText: string;
  /** Takes the client's answer; resolves when the upstream has it, rejects with `UpstreamError`. */
  answered(answer: ResponseMessage): Promise<void>;
  /** Takes a progress notification of the client's on it, as text. */
  progressed(text: string): void;
  /** The client will not answer it any more. */
  abandoned(): void;
}

/** What is connected to a client's session from the side of its upstreams. */
export interface SessionChannel {
  /** The client has begun to listen, or has stopped. */
  listening(on: boolean): void;
}

/** Notification streams that one client may have open at a time; one more ends the oldest. */
const MAX_STREAMS = 8;

/**
 * What a legacy session has open in this process: its notification streams, and the questions that upstreams have put
 * to the client. It is there only as long as there is something to hold.
 */
export class ActiveSession {
  readonly id: string;
  readonly #events: EventStore;
  readonly #unused: (session: ActiveSession) => void;
  readonly #nextId: () => string;
  /** Oldest first. A stream that nobody reads stays while it can be taken up again. */
  #streams: ClientStream[] = [];
  readonly #channels = new Set<SessionChannel>();
  readonly #questions = new Map<string, Question>();

  constructor(id: string, events: EventStore, nextId: () => string, unused: (session: ActiveSession) => void) {
    this.id = id;
    this.#events = events;
    this.#nextId = nextId;
    this.#unused = unused;
  }

  /** True while the client has a notification stream, or may come back to one. */
  get listening(): boolean {
    return this.#streams.length > 0;
  }

  /** True when messages went to a stream that nobody reads: only a client that takes that one up again gets them. */
  get unread(): boolean {
    return this.#streams.some(({ unread }) => unread);
  }

  /**
   * A new notification stream; `onGone` is called when nobody can come back to it. Messages go to the newest only, since
   * each may be sent but once (2025-11-25).
   */
  openStream(onGone: () => void): ClientStream {
    // Whatever waits for an older stream's reader goes on with this one.
    for (const older of this.#streams) older.stopWaiting();
    const stream = this.#events.open(this.id);
    stream.onGone = () => {
      onGone();
      this.#dropStream(stream);
    };
    this.#streams.push(stream);
    const [oldest] = this.#streams;
    if (oldest && this.#streams.length > MAX_STREAMS) this.closeStream(oldest);
    if (this.#streams.length === 1) for (const channel of this.#channels) channel.listening(true);
    return stream;
  }

  /** A notification stream that ends: nobody is to come back to it. */
  closeStream(stream: ClientStream): void {
    stream.close();
    this.#events.drop(stream);
  }

  /** Sends a message that belongs to no call. False: the client reads slowly, wait for `onDrain`. */
  notify(text: string): boolean {
    return this.#current()?.send(text) ?? true;
  }

  /** Calls back once when the client has read what it was sent. */
  onDrain(listener: () => void): void {
    const current = this.#current();
    if (current) current.onDrain(listener);
    else listener();
  }

  /** Registers a question; `make` gets the text of the id that it is to have towards the client. */
  ask(make: (idText: string) => Question): Question {
    const question = make(this.#nextId());
    this.#questions.set(question.idText, question);
    return question;
  }

  /** The question is no longer open; an answer to it is nobody's. */
  withdraw(question: Question): void {
    this.#questions.delete(question.idText);
    this.#leaveIfUnused();
  }

  /** The client's answer to a question: the upstream has it when this resolves. Undefined when nobody waits for it. */
  answer(message: ResponseMessage): Promise<void> | undefined {
    const question = this.#questions.get(message.idText);
    if (!question) return undefined;
    this.withdraw(question);
    return question.answered(message);
  }

  /** The question that this progress token was given out for. */
  question(tokenText: string): Question | undefined {
    return this.#questions.get(tokenText);
  }

  join(channel: SessionChannel): void {
    this.#channels.add(channel);
  }

  leave(channel: SessionChannel): void {
    this.#channels.delete(channel);
    this.#leaveIfUnused();
  }

  /** The session has ended: so do its streams, and nobody is left to answer. */
  end(): void {
    for (const question of this.#questions.values()) {
      this.withdraw(question);
      question.abandoned();
    }
    for (const stream of [...this.#streams]) this.closeStream(stream);
  }

  #current(): ClientStream | undefined {
    return this.#streams.findLast((stream) => stream.attached) ?? this.#streams.at(-1);
  }

  #dropStream(stream: ClientStream): void {
    this.#streams = this.#streams.filter((other) => other !== stream);
    if (this.#streams.length > 0) return;
    for (const channel of this.#channels) channel.listening(false);
    this.#leaveIfUnused();
  }

  #leaveIfUnused(): void {
    if (this.#streams.length + this.#channels.size + this.#questions.size === 0) this.#unused(this);
  }
}

/** The legacy sessions that have something open in this process. */
export class ActiveSessions {
  readonly #events: EventStore;
  readonly #replica: string;
  readonly #live = new Map<string, ActiveSession>();
  #asked = 0;

  /** `replica` names this process in the ids of questions, so that another one could pass an answer on to it. */
  constructor(events: EventStore, replica: string) {
    this.#events = events;
    this.#replica = replica;
  }

  /** How many there are, for tests and figures. */
  get size(): number {
    return this.#live.size;
  }

  /** What this session has open, to add to it. */
  of(session: string): ActiveSession {
    let live = this.#live.get(session);
    if (!live) {
      const nextId = () => JSON.stringify(`${this.#replica}.${++this.#asked}`);
      live = new ActiveSession(session, this.#events, nextId, (unused) => this.#forget(unused));
      this.#live.set(session, live);
    }
    return live;
  }

  /** What this session has open; undefined when it has nothing. */
  find(session: string): ActiveSession | undefined {
    return this.#live.get(session);
  }

  #forget(session: ActiveSession): void {
    if (this.#live.get(session.id) === session) this.#live.delete(session.id);
  }
}
