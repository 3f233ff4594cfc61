import { type Authenticate, authenticated } from './authenticator.ts';
import { type Principal, parsePrincipal, serializePrincipal } from './principal.ts';

/** Beginning of the names of headers that replicas add to requests. From clients, no such header is accepted. */
export const PEER_HEADER_PREFIX = 'sluice-peer-';
/** Header with the principal of a request that a replica hands off. */
export const PEER_PRINCIPAL = `${PEER_HEADER_PREFIX}principal`;

/** Longest value of the header, in bytes. */
export const MAX_PRINCIPAL_BYTES = 32 * 1024;

/** Returns the value of {@link PEER_PRINCIPAL}; undefined if it would be too long for the other replica. */
export function encodePrincipal(principal: Principal): string | undefined {
  const encoded = Buffer.from(serializePrincipal(principal)).toString('base64url');
  return encoded.length <= MAX_PRINCIPAL_BYTES ? encoded : undefined;
}

/**
 * Trusts the principal that another replica sends, and no other header: the connection proves that the sender is a replica. The
 * credential is not verified again, since it may have expired meanwhile.
 */
export const fromPeer: Authenticate = ({ headers: { [PEER_PRINCIPAL]: encoded } }) => {
  const principal =
    typeof encoded === 'string' ? parsePrincipal(Buffer.from(encoded, 'base64url').toString()) : undefined;
  return principal
    ? authenticated(principal)
    : { kind: 'rejected', status: 400, reason: `missing or invalid header ${PEER_PRINCIPAL}` };
};
