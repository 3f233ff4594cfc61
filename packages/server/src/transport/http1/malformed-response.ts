/**
 * An answer that is not strict HTTP/1.1. Nothing after it on its connection can be trusted. The message is a reason of
 * ours, without anything that the upstream sent.
 */
export class MalformedResponse extends Error {
  override readonly name = 'MalformedResponse';
  /** `too-large`: more bytes of head or trailers than are accepted. */
  readonly kind: 'invalid' | 'too-large';

  constructor(reason: string, kind: 'invalid' | 'too-large' = 'invalid') {
    super(reason);
    this.kind = kind;
  }
}
