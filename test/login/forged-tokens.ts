import { generateKeyPairSync, sign } from 'node:crypto';

/** A token whose payload was changed after it was signed: its user becomes another one. */
export function tampered(token: string): string {
  const [head = '', , signature = ''] = token.split('.');
  return [
    head,
    encode({ ...payloadOf(token), preferred_username: 'mallory', email: 'mallory@example.com' }),
    signature,
  ].join('.');
}

/** The token without a signature, `alg` none. */
export function unsigned(token: string): string {
  const [, payload = ''] = token.split('.');
  return `${encode({ alg: 'none', typ: 'JWT' })}.${payload}.`;
}

/** The token signed by another key, under the name of the right one. */
export function signedByForeignKey(token: string): string {
  const [head = '', payload = ''] = token.split('.');
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const signature = sign('sha256', Buffer.from(`${head}.${payload}`), privateKey).toString('base64url');
  return `${head}.${payload}.${signature}`;
}

/** The token of another issuer with the same content, signed by its own key. */
export function ofForeignIssuer(token: string): string {
  const [head = ''] = token.split('.');
  return signedByForeignKey(`${head}.${encode({ ...payloadOf(token), iss: 'http://localhost:9/realms/sluice' })}.`);
}

/** The payload of a token, unverified. */
export function payloadOf(token: string): Readonly<Record<string, unknown>> {
  const payload: unknown = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
  return typeof payload === 'object' && payload !== null ? { ...payload } : {};
}

function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}
