import { isJsonObject, type JsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { type CryptoKey, importJWK } from 'jose';

/** Limits of a key set. */
export const MAX_KEY_SET_BYTES = 1024 * 1024;
const MAX_KEYS = 100;
/** Bits of RSA keys: shorter ones are broken, longer ones take long to verify. */
const RSA_BITS = { min: 2_048, max: 16_384 } as const;

/** Key type and curve of each algorithm (RFC 7518 3.1, RFC 8037, RFC 9864). */
const ES256 = { kty: 'EC', crv: 'P-256' };
const ES384 = { kty: 'EC', crv: 'P-384' };
const ES512 = { kty: 'EC', crv: 'P-521' };
const EDDSA = { kty: 'OKP', crv: 'Ed25519' };
const CURVES: Readonly<Record<string, { readonly kty: string; readonly crv: string }>> = {
  ES256,
  ES384,
  ES512,
  EdDSA: EDDSA,
  Ed25519: EDDSA,
};

/** A public key with which an issuer signs. */
export class IssuerKey {
  /** Its public members as JSON: equal for equal keys. */
  readonly text: string;
  readonly #jwk: JsonObject;
  readonly #imported = new Map<string, Promise<CryptoKey>>();

  constructor({ kty, kid, alg, n, e, crv, x, y }: JsonObject) {
    this.text = JSON.stringify({ kty, kid, alg, n, e, crv, x, y });
    this.#jwk = JSON.parse(this.text);
  }

  /** Whether it may have signed a token with this algorithm and id of the key. */
  matches(algorithm: string, keyId: string | undefined): boolean {
    const { kty, crv, alg, kid } = this.#jwk;
    if (keyId !== undefined && kid !== keyId) return false;
    const curve = CURVES[algorithm];
    // Two names of one algorithm.
    const isNamed = alg === undefined || alg === algorithm || (curve === EDDSA && CURVES[String(alg)] === EDDSA);
    return isNamed && (curve ? kty === curve.kty && crv === curve.crv : kty === 'RSA');
  }

  /** Returns the key for this algorithm, which it matches. Rejects if it is malformed. */
  import(algorithm: string): Promise<CryptoKey> {
    return this.#imported.getOrInsertComputed(algorithm, async () => {
      const key = await importJWK({ ...this.#jwk, alg: algorithm }, algorithm);
      if (key instanceof Uint8Array) throw new TypeError('the key is symmetric');
      return key;
    });
  }
}

/**
 * Parses a JSON Web Key Set (RFC 7517 5). Keys that cannot verify signatures of this issuer are left out: symmetric and private
 * ones, short ones, and those for another purpose or of another issuer. Throws if the set is invalid.
 */
export function parseKeySet(text: string, issuer: string): readonly IssuerKey[] {
  const value = text.length > MAX_KEY_SET_BYTES ? undefined : tryParseJson(text);
  const keys = isJsonObject(value) ? value.keys : undefined;
  if (!Array.isArray(keys) || !keys.every(isJsonObject)) throw new Error('is not a JSON Web Key Set');
  if (keys.length > MAX_KEYS) throw new Error(`has more than ${MAX_KEYS} keys`);
  return keys.filter((jwk) => canVerify(jwk, issuer)).map((jwk) => new IssuerKey(jwk));
}

function canVerify({ kty, n, d, use, key_ops: operations, issuer: owner }: JsonObject, issuer: string): boolean {
  if (d !== undefined || (use !== undefined && use !== 'sig')) return false;
  if (operations !== undefined && !(Array.isArray(operations) && operations.includes('verify'))) return false;
  // Some issuers share a set; the name may be that of all of them, with a placeholder.
  if (typeof owner === 'string' && owner !== issuer && !owner.includes('{')) return false;
  if (kty !== 'RSA') return kty === 'EC' || kty === 'OKP';
  const bits = typeof n === 'string' ? bitLength(Buffer.from(n, 'base64url')) : 0;
  return bits >= RSA_BITS.min && bits <= RSA_BITS.max;
}

function bitLength(bytes: Buffer): number {
  const first = bytes.findIndex((byte) => byte !== 0);
  return first === -1 ? 0 : (bytes.length - first) * 8 - Math.clz32(bytes[first] ?? 0) + 24;
}
