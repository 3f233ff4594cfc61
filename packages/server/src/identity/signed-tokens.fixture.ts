import { type IdentitySettings, identity } from '@sluice/contract';
import { type CryptoKey, compactVerify, exportJWK, generateKeyPair, type JWK } from 'jose';

/** Signs tokens with a key of its own, as an issuer does. */
export interface Signer {
  readonly algorithm: string;
  readonly keyId: string | undefined;
  /** For the key set of its issuer. */
  readonly jwk: JWK;
  readonly publicKey: CryptoKey;
  readonly privateKey: CryptoKey;
  /** Parameters of the algorithm. */
  readonly signing: Parameters<typeof crypto.subtle.sign>[0];
}

/** Creates a key for this algorithm. */
export async function createSigner(algorithm = 'ES256', keyId: string | undefined = 'k1'): Promise<Signer> {
  const { publicKey, privateKey } = await generateKeyPair(algorithm, { extractable: true });
  const jwk = await exportJWK(publicKey);
  const signing = SIGNING[algorithm] ?? algorithm;
  return {
    algorithm,
    keyId,
    jwk: { ...jwk, ...(keyId !== undefined && { kid: keyId }) },
    publicKey,
    privateKey,
    signing,
  };
}

const SIGNING: Readonly<Record<string, Signer['signing']>> = {
  RS256: 'RSASSA-PKCS1-v1_5',
  ES256: { name: 'ECDSA', hash: 'SHA-256' },
  EdDSA: 'Ed25519',
};

/** Claims or headers; undefined ones are left out. */
export type Members = Readonly<Record<string, unknown>>;

const encode = (value: object | string): string =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');

/**
 * Returns a token with these claims, and with more members in its header: whatever they are, also what no library would sign. A text
 * is signed as it is.
 */
export async function sign(signer: Signer, claims: Members | string, header: Members | string = {}): Promise<string> {
  const { algorithm, keyId: kid, privateKey, signing } = signer;
  const members =
    typeof header === 'string' ? header : { alg: algorithm, ...(kid !== undefined && { kid }), ...header };
  const signed = `${encode(members)}.${encode(claims)}`;
  const signature = await crypto.subtle.sign(signing, privateKey, Buffer.from(signed));
  return `${signed}.${Buffer.from(signature).toString('base64url')}`;
}

/** Verifies the signature of a token with nothing but the library. */
export async function verifySignature({ publicKey }: Signer, token: string): Promise<void> {
  await compactVerify(token, publicKey);
}

/** Returns a key set as a file of the settings. */
export function keySet(...signers: readonly Signer[]): { readonly name: string; readonly text: string } {
  return { name: 'keys.json', text: JSON.stringify({ keys: signers.map(({ jwk }) => jwk) }) };
}

/** Returns valid settings. */
export function identitySettings(settings: object): IdentitySettings {
  return identity.parse(settings);
}
