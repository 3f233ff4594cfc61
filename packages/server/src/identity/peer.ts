import { z } from 'zod';
import { type Authenticate, type Authenticated, authenticated, type Proof } from './authenticator.ts';
import { toTransferred, transferredPrincipal } from './principal.ts';

/** Beginning of the names of headers that replicas add to requests. From clients, no such header is accepted. */
export const PEER_HEADER_PREFIX = 'sluice-peer-';
/** Header with what has authenticated a request that a replica hands off. */
export const PEER_PRINCIPAL = `${PEER_HEADER_PREFIX}principal`;

/**
 * Longest value of the header, in bytes: JSON may double 16 KiB of groups and the headers of a proxy that name them, and base64 adds
 * a third.
 */
export const MAX_PRINCIPAL_BYTES = 96 * 1024;

const header = z.enum(['authorization', 'x-sluice-authorization']);
const members = { source: z.string(), algorithm: z.string(), key: z.string(), header };
const proofs = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('none') }),
  z.object({
    kind: z.literal('proxy'),
    headers: z.array(z.tuple([z.string(), z.array(z.string())])).transform((lines) => new Map(lines)),
    peer: z.string().optional(),
  }),
  z.object({ kind: z.literal('key'), hash: z.string(), header }),
  z.object({ kind: z.literal('token'), ...members }),
  z.object({ kind: z.literal('recovery') }),
  z.object({ kind: z.literal('sign_in'), id: z.string() }),
]);
const transferred = z.object({ principal: transferredPrincipal, proof: proofs, expiresAt: z.number().optional() });

/** Returns the value of {@link PEER_PRINCIPAL}; undefined if it would be too long for the other replica. */
export function encodeAuthenticated({ principal, proof, expiresAt }: Authenticated): string | undefined {
  const text = JSON.stringify({ principal: toTransferred(principal), proof: transferable(proof), expiresAt });
  const encoded = Buffer.from(text).toString('base64url');
  return encoded.length <= MAX_PRINCIPAL_BYTES ? encoded : undefined;
}

/** The claims are those of the principal. */
function transferable(proof: Proof): object {
  if (proof.kind === 'token') return { ...proof, claims: undefined };
  return proof.kind === 'proxy' ? { ...proof, headers: [...proof.headers] } : proof;
}

/**
 * Trusts the principal that another replica sends, and no other header: the connection proves that the sender is a replica. The
 * credential is not verified again, since it may have expired meanwhile.
 */
export const fromPeer: Authenticate = ({ headers: { [PEER_PRINCIPAL]: encoded } }) =>
  (typeof encoded === 'string' ? decode(encoded) : undefined) ?? {
    kind: 'rejected',
    status: 400,
    reason: `missing or invalid header ${PEER_PRINCIPAL}`,
  };

function decode(encoded: string): Authenticated | undefined {
  let json: unknown;
  try {
    json = JSON.parse(Buffer.from(encoded, 'base64url').toString());
  } catch {
    return undefined;
  }
  const { data } = transferred.safeParse(json);
  if (!data) return undefined;
  const { principal, proof, expiresAt } = data;
  const claims = Object.fromEntries(principal.claims);
  const whole = proof.kind === 'token' ? { ...proof, claims } : proof;
  return { ...authenticated(principal, whole, expiresAt), isHandedOff: true };
}
