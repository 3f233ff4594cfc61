import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

/** Purpose of a sealed text, which cannot be opened for another one. */
export type Purpose = 'session' | 'requestState' | 'eventId' | 'upstreamSession' | 'signIn' | 'refreshToken';

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/**
 * Seals texts that clients store: they cannot read, change or forge them. AES-256-GCM, base64url.
 */
export class TokenSealer {
  readonly #key: Buffer;

  /** `key` has 32 bytes. */
  constructor(key: Buffer) {
    this.#key = key;
  }

  seal(purpose: Purpose, text: string): string {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce);
    cipher.setAAD(Buffer.from(purpose));
    return Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]).toString(
      'base64url',
    );
  }

  /** The sealed text, or undefined for anything that was not sealed with this key for this purpose. */
  open(purpose: Purpose, sealed: string): string | undefined {
    const bytes = Buffer.from(sealed, 'base64url');
    // Base64 has several encodings of one value; only the canonical one is accepted.
    if (bytes.length < NONCE_BYTES + TAG_BYTES || bytes.toString('base64url') !== sealed) return undefined;
    const decipher = createDecipheriv('aes-256-gcm', this.#key, bytes.subarray(0, NONCE_BYTES), {
      authTagLength: TAG_BYTES,
    });
    decipher.setAAD(Buffer.from(purpose));
    decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
    try {
      return decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES), undefined, 'utf8') + decipher.final('utf8');
    } catch {
      return undefined;
    }
  }
}
