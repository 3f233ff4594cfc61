import type { Interaction, RecordedBody } from './interaction.ts';

/** An interaction that may lose its bodies later. */
export class StoredInteraction implements Interaction {
  readonly epochMs: number;
  readonly path: string;
  readonly conversationId: string | undefined;
  readonly completionId: string | undefined;
  readonly model: string | undefined;
  readonly statusCode: number;
  readonly durationMs: number;
  #request: RecordedBody;
  #response: RecordedBody;

  constructor(interaction: Interaction) {
    this.epochMs = interaction.epochMs;
    this.path = interaction.path;
    this.conversationId = interaction.conversationId;
    this.completionId = interaction.completionId;
    this.model = interaction.model;
    this.statusCode = interaction.statusCode;
    this.durationMs = interaction.durationMs;
    this.#request = interaction.request;
    this.#response = interaction.response;
  }

  get request(): RecordedBody {
    return this.#request;
  }

  get response(): RecordedBody {
    return this.#response;
  }

  /** Bytes of both bodies. */
  get bodyBytes(): number {
    return bytesOf(this.#request) + bytesOf(this.#response);
  }

  /** Drops the bodies, and says of each that there was one. Returns how many bytes they had. */
  dropBodies(): number {
    const bytes = this.bodyBytes;
    this.#request = dropped(this.#request);
    this.#response = dropped(this.#response);
    return bytes;
  }
}

function bytesOf({ body }: RecordedBody): number {
  return body?.bytes.length ?? 0;
}

function dropped({ body, truncated }: RecordedBody): RecordedBody {
  return { body: undefined, truncated: truncated || body !== undefined };
}
