import type { StoredBody } from './stored-body.ts';

/** A body of an exchange that is over. Undefined: there was none, or none that can be read. */
export interface RecordedBody {
  readonly body: StoredBody | undefined;
  /** Whether there was more of it than is kept. */
  readonly truncated: boolean;
}

/** One completion that was asked for, as it is recorded (decisions 2.9). */
export interface Interaction {
  /** When the request arrived. */
  readonly epochMs: number;
  /** Without query. */
  readonly path: string;
  readonly conversationId: string | undefined;
  readonly completionId: string | undefined;
  readonly model: string | undefined;
  /** 0 when the exchange ended before an answer began. */
  readonly statusCode: number;
  readonly durationMs: number;
  readonly request: RecordedBody;
  readonly response: RecordedBody;
}
