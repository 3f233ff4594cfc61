import { type IdentitySettings, identity } from '@sluice/contract';
import { type CryptoKey, exportJWK, generateKeyPair, type JWK } from 'jose';

/** Signs tokens with a key of its own, as an issuer does. */
export interface Signer {
  readonly algorithm: string;
  readonly keyId: string | undefined;
  /** For the key set of its issuer. */
  readonly publicKey: JWK;
  readonly privateKey: CryptoKey;
}

/** Creates a key for this algorithm. */
export async function createSigner(algorithm = 'ES256', keyId: string | undefined = 'k1'): Promise<Signer> {
  const { publicKey, privateKey } = await generateKeyPair(algorithm, { extractable: true });
  const jwk = await exportJWK(publicKey);
  return { algorithm, keyId, privateKey, publicKey: { ...jwk, ...(keyId !== undefined && { kid: keyId }) } };
}

const ALGORITHMS: Readonly<Record<string, Parameters<typeof crypto.subtle.sign>[0]>> = {
  RS256: 'RSASSA-PKCS1-v1_5',
  PS256: { name: 'RSA-PSS', saltLength: 32 },
  ES256: { name: 'ECDSA', hash: 'SHA-256' },
  ES384: { name: 'ECDSA', hash: 'SHA-384' },
  EdDSA: 'Ed25519',
  Ed25519: 'Ed25519',
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
  const { algorithm, keyId: kid, privateKey } = signer;
  const members =
    typeof header === 'string' ? header : { alg: algorithm, ...(kid !== undefined && { kid }), ...header };
  const signed = `${encode(members)}.${encode(claims)}`;
  const signature = await crypto.subtle.sign(ALGORITHMS[algorithm] ?? algorithm, privateKey, Buffer.from(signed));
  return `${signed}.${Buffer.from(signature).toString('base64url')}`;
}

/** Returns a key set as a file of the settings. */
export function keySet(...signers: readonly Signer[]): { readonly name: string; readonly text: string } {
  return { name: 'keys.json', text: JSON.stringify({ keys: signers.map(({ publicKey }) => publicKey) }) };
}

/** Returns valid settings. */
export function identitySettings(settings: object): IdentitySettings {
  return identity.parse(settings);
}
